//! A folder in which a block runs: with `leasehold`, and with stubs of the other programs that the block names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use lock_testkit::eventually;
use rustix::process::Signal;
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::LIMIT;
use crate::shell::{Running, Shell};
use crate::store::{File, Store};

/// Programs that a block may name without a path.
const STUBS: [&str; 2] = ["make", "psql"];

/// A URL that no client can use.
const UNUSABLE: &str = "file:/dev/null/locks";

/// Separates the words of a call.
const SEPARATOR: char = '\u{1f}';

pub(super) struct Sandbox {
    shell: Shell,
    script: String,
    _store: File,
}

impl Sandbox {
    /// Prepares a script, which then names stubs in place of programs of the reader, and the store of this test in
    /// place of the reader's.
    pub(super) fn of(script: &str) -> Self {
        let store = File::start();
        let shell = Shell::of(&store);
        fs::create_dir(shell.file("bin")).expect("a folder");
        let sandbox = Self { script: moved(script, &shell, &store.url()), shell, _store: store };
        let call = format!(
            "#!/bin/sh\nprintf '%s{SEPARATOR}' \"$@\" >> \"$HOME/calls\"; echo >> \"$HOME/calls\"\n"
        );
        sandbox.program("bin/leasehold", &(call + "exec \"$L\" \"$@\"\n"));
        let names = |c: char| !c.is_ascii_alphanumeric() && !"./_-".contains(c);
        for word in sandbox.script.split(names).chain(STUBS) {
            let at = word.strip_prefix("./").or_else(|| STUBS.contains(&word).then_some(word));
            let at = at.map(|name| if word == name { format!("bin/{name}") } else { name.into() });
            if let Some(at) = at.filter(|at| !at.is_empty() && !sandbox.shell.file(at).exists()) {
                let reads = if at == "bin/psql" { "cat > /dev/null\n" } else { "" };
                sandbox.program(&at, &format!("#!/bin/sh\n{reads}echo $0 >> \"$HOME/ran\"\n"));
            }
        }
        fs::write(sandbox.shell.file("n"), "0\n").expect("a file");
        sandbox.program("script", &sandbox.script);
        sandbox
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.shell.file(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Removes `leasehold`, as on a machine without it.
    pub(super) fn without_leasehold(self) -> Self {
        fs::remove_file(self.shell.file("bin/leasehold")).expect("it is there");
        self
    }

    /// Replaces the store by one that refuses.
    pub(super) fn refused(mut self) -> Self {
        let url = self._store.url();
        self.program("script", &self.script.replace(&url, UNUSABLE));
        self.shell = self.shell.at(UNUSABLE);
        self
    }

    /// Starts the script. Its input is open until this is dropped, or ends at once.
    pub(super) fn start(&self, has_input: bool) -> Started {
        let mut command = self.command("bash", &["-e", "-o", "pipefail", "./script"]);
        let input = if has_input { Stdio::piped() } else { Stdio::null() };
        let out = fs::File::create(self.shell.file("out")).expect("a file");
        let err = fs::File::create(self.shell.file("err")).expect("a file");
        let child = command.stdin(input).stdout(out).stderr(err).spawn().expect("bash starts");
        Started(child)
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.shell.command(program, args);
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.shell.file("bin").display().to_string();
        command.env("PATH", format!("{bin}:{path}")).env("USER", "me");
        command
    }

    /// Runs the script to its end; returns its exit code.
    pub(super) async fn run(&self) -> i32 {
        self.start(false).code().await
    }

    /// Returns all that the script has done: its output, its stubs' runs, and its change of the counter.
    pub(super) fn trace(&self) -> String {
        let counter = self.shell.read("n").replace("0\n", "");
        self.shell.read("out") + &self.shell.read("ran") + &counter
    }

    pub(super) fn stderr(&self) -> String {
        self.shell.read("err")
    }

    /// Returns the locks that the script has asked for.
    pub(super) fn names(&self, with_value: &[String]) -> Vec<String> {
        let calls = self.shell.read("calls");
        let mut names: Vec<String> =
            calls.lines().flat_map(|call| names(call, with_value)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Holds locks as another client.
    pub(super) async fn hold(&self, names: &[String]) -> Running {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let args = [&["run"], &*names, &["--", "sh", "-c", "echo > held; exec sleep 600"]].concat();
        let holder = self.shell.start(&args);
        self.shell.appears("held").await;
        holder
    }

    /// Leads an election as another client.
    pub(super) async fn lead(&self, name: &str) -> Running {
        let leader =
            self.shell.start(&["elect", name, "--", "sh", "-c", "echo > led; exec sleep 600"]);
        self.shell.appears("led").await;
        leader
    }

    /// Records a run of another client.
    pub(super) async fn record(&self, [name, key]: [&str; 2]) {
        let ran = self.shell.run(&["run", "-q", "--once", key, name, "--", "true"]).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }

    /// Returns what `inspect` shows of a lock.
    pub(super) async fn inspect(&self, name: &str) -> Value {
        let seen = self.shell.run(&["inspect", "--json", name]).await.stdout;
        serde_json::from_str(&seen).expect("JSON")
    }

    /// Writes the digits of the holder's owner in place of those in the script.
    pub(super) async fn name_owner(&self, name: &str) {
        let Some((before, rest)) = self.script.split_once("--owner ") else { return };
        let owner = self.inspect(name).await["owner"].as_str().expect("an owner").to_owned();
        self.program("script", &format!("{before}--owner {owner}{}", &rest[owner.len()..]));
    }

    /// Waits until the script has printed something.
    pub(super) async fn prints(&self) {
        eventually("output", LIMIT, async || !self.shell.read("out").is_empty()).await;
    }
}

/// A running script.
pub(super) struct Started(Child);

impl Started {
    pub(super) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_some()
    }

    pub(super) async fn code(mut self) -> i32 {
        drop(self.0.stdin.take());
        let status = timeout(LIMIT, self.0.wait()).await.expect("it ends").expect("it is ours");
        status.code().expect("no signal")
    }
}

pub(super) async fn end(mut running: Running) {
    running.send(Signal::TERM);
    running.ended().await;
}

/// Returns a script for this sandbox: without the paths and the store of the reader.
fn moved(script: &str, shell: &Shell, url: &str) -> String {
    let mut moved = String::new();
    let mut rest = script;
    while let Some((before, from)) = rest.split_once("redis://") {
        let end = from.find([' ', '\n', '\'', '"']).unwrap_or(from.len());
        (moved, rest) = (moved + before + url, &from[end..]);
    }
    moved += rest;
    for folder in ["/usr/local/bin/", "/usr/bin/", "/var/lib/node_exporter/"] {
        moved = moved.replace(&format!("{folder}leasehold"), "leasehold").replace(folder, "./");
    }
    for target in script.split("> /").skip(1).filter_map(|rest| rest.split([' ', '\n']).next()) {
        let folder = shell.file(target).parent().expect("a folder").to_owned();
        fs::create_dir_all(folder).expect("a folder");
    }
    moved.replace("> /", "> ./").replace("--seconds 5", "--seconds 1")
}

/// Returns the names of a call of `run`, `hold` or `elect`.
fn names(call: &str, with_value: &[String]) -> Vec<String> {
    let mut words = call.split(SEPARATOR).filter(|word| !word.is_empty());
    let mut names = Vec::new();
    let mut has_verb = false;
    while let Some(word) = words.next() {
        match word {
            "--" => break,
            _ if with_value.iter().any(|option| option == word) => drop(words.next()),
            _ if word.starts_with('-') => {}
            "run" | "hold" | "elect" if !has_verb => has_verb = true,
            _ if has_verb => names.push(word.to_owned()),
            _ => return Vec::new(),
        }
    }
    names
}

/// Returns the options that have a value.
pub(super) async fn options_with_value() -> Vec<String> {
    let mut help = String::new();
    for verb in ["run", "hold", "elect"] {
        help += &Shell::without_url().run(&[verb, "--help"]).await.stdout;
    }
    let lines = help.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with('-') && line.contains('<'));
    let options =
        lines.flat_map(|line| line.split([' ', ',']).filter(|word| word.starts_with('-')));
    options.map(str::to_owned).collect()
}
