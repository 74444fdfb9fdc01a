//! Tests on a real terminal, by tmux: the waiting line, colour, and job control.

use std::process::{Command, Stdio};
use std::time::Duration;

use lock_testkit::{eventually, is_running};
use rustix::process::Signal;

use crate::LIMIT;
use crate::shell::{Shell, send};
use crate::store::{File, Redis, Store};

/// A terminal with a shell in it. It has its own tmux server, which ends with it.
struct Terminal<'a> {
    shell: &'a Shell,
    socket: String,
}

impl<'a> Terminal<'a> {
    /// Opens a terminal of 100 columns, in the folder and with the variables of `shell`.
    async fn open(shell: &'a Shell) -> Self {
        let socket = shell.file("tmux").display().to_string();
        let terminal = Self { shell, socket };
        let start = shell.command("tmux", &["-S", &terminal.socket, "-f", "/dev/null"]);
        let mut start = start.into_std();
        let interactive = ["bash", "--norc", "--noprofile"];
        start.args(["new-session", "-d", "-x", "100", "-y", "30"]).args(interactive);
        start.env("PS1", "ready> ").env("TERM", "xterm-256color").stdout(Stdio::null());
        let started = start.stderr(Stdio::inherit()).status();
        let started = started.expect("tmux: `apt-get install tmux` / `brew install tmux`");
        assert!(started.success(), "tmux does not start");
        terminal.shows("ready>").await;
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(args).output();
        String::from_utf8(output.expect("tmux").stdout).expect("UTF-8")
    }

    /// Types a line.
    fn types(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys("Enter");
    }

    fn keys(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the line on the screen that contains `text`.
    fn line(&self, text: &str) -> Option<String> {
        self.screen().lines().find(|line| line.contains(text)).map(str::to_owned)
    }

    async fn shows(&self, text: &str) {
        eventually(text, LIMIT, async || self.screen().contains(text)).await;
    }

    /// Waits until a command of this terminal holds the lock.
    async fn holds(&self, name: &str) {
        eventually("it is held", LIMIT, async || {
            let seen = self.shell.run(&["inspect", name, "--json"]).await;
            seen.stdout.contains(r#""held":true"#)
        })
        .await;
    }

    /// Returns the process that a command wrote to the file `pid`.
    async fn pid(&self) -> u32 {
        self.shell.pid("pid").await
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_waiting_line_moves() {
    let store = Redis::start().await;
    let shell = Shell::of(&store);
    let mut holder = shell.hold(&["--label", "web-3"], "a", "exec sleep 60").await;
    let mut before = shell.start(&["-v", "run", "--label", "web-4", "a", "--", "sleep", "60"]);
    before.waits().await;

    let terminal = Terminal::open(&shell).await;
    terminal.types("$L run a -- echo entered by $LEASEHOLD_URL | tr a-z A-Z");
    terminal.shows(" for \"a\": held by \"web-3\", 1 before us").await;
    let first = terminal.line(" for \"a\": ").expect("a line");
    eventually("the spinner and the span move", LIMIT, async || {
        let line = terminal.line(" for \"a\": ").expect("a line");
        [0, 2].iter().all(|word| line.split(' ').nth(*word) != first.split(' ').nth(*word))
    })
    .await;

    holder.send(Signal::TERM);
    terminal.shows(": held by \"web-4\", we are next").await;
    // Only one waiter is left: after an outage, the order of several depends on their next looks.
    store.stop();
    terminal.shows(" for \"a\": no answer from the server for ").await;
    store.go_on();
    terminal.shows(": held by \"web-4\", we are next").await;
    before.send(Signal::KILL);
    holder.ended().await;
    before.ended().await;
    shell.run(&["release", "--force", "a"]).await;
    terminal.shows("ENTERED BY REDIS").await;
    assert!(!terminal.screen().contains("waiting "), "{}", terminal.screen());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_gets_colour_unless_it_is_not_wanted() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    terminal.types("$L doctor");
    terminal.shows("this user alone may").await;
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(coloured.contains("\u{1b}[32mgood"), "{coloured:?}");
    terminal.types("clear; NO_COLOR=1 $L doctor; echo finis''hed");
    terminal.shows("finished").await;
    let plain = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(plain.contains("good") && !plain.contains("\u{1b}[32m"), "{plain:?}");
    // A pipe gets no colours either: no other test here sees an escape.
    assert!(!shell.run(&["doctor"]).await.stdout.contains('\u{1b}'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_ends_the_wait_and_the_command() {
    let shell = Shell::of(&File::start());
    let mut holder = shell.hold(&[], "a", "exec sleep 60").await;
    let terminal = Terminal::open(&shell).await;
    terminal.types("$L run a -- true; echo code $?");
    terminal.shows(" for \"a\": held").await;
    terminal.keys("C-c");
    terminal.shows("code 130").await;
    assert!(!terminal.screen().contains("held"), "{}", terminal.screen());

    holder.send(Signal::TERM);
    holder.ended().await;
    std::fs::remove_file(shell.file("pid")).expect("a file");
    terminal.types("clear; $L run a -- sh -c 'echo $$ > pid; exec sleep 60'; echo code $?");
    let command = terminal.pid().await;
    terminal.keys("C-c");
    terminal.shows("code 130").await;
    assert!(!is_running(command));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_may_read_the_terminal_and_the_shell_gets_it_back() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    terminal.types("$L run a -- sh -c 'read x; echo got $x'; echo code $?");
    terminal.holds("a").await;
    terminal.types("it");
    terminal.shows("got it").await;
    terminal.shows("code 0").await;
    terminal.types("echo th''anks");
    terminal.shows("thanks").await;
    // A nested shell with job control, which wants the terminal for itself.
    terminal.types("clear; $L run a -- bash --norc --noprofile -i; echo code $?");
    terminal.holds("a").await;
    terminal.types("echo $LEASEHOLD_NAME is mine; exit 5");
    terminal.shows("a is mine").await;
    terminal.shows("code 5").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_z_stops_both_and_fg_goes_on() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    // `timeout` makes a group of its own, and the last one ignores the terminal's request.
    let commands = [("", ""), ("", "read x; "), ("timeout 600 ", ""), ("", "trap \"\" TSTP; ")];
    for (run_by, first) in commands {
        let _ = std::fs::remove_file(shell.file("pid"));
        let _ = std::fs::remove_file(shell.file("go"));
        // A shell that is about to start a program cannot be stopped, so this one starts none.
        let script = format!("{first}echo $$ > pid; while [ ! -e go ]; do :; done");
        terminal.types(&format!("clear; $L run a -- {run_by}sh -c '{script}'; echo code $?"));
        // Words typed earlier would go to the outer shell.
        terminal.holds("a").await;
        terminal.types("");
        let command = terminal.pid().await;
        terminal.keys("C-z");
        terminal.shows("Stopped").await;
        eventually("it is stopped", LIMIT, async || {
            let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
            stat.contains(") T ")
        })
        .await;
        terminal.types("clear; fg; echo code $?");
        std::fs::write(shell.file("go"), "").expect("a file");
        terminal.shows("code 0").await;
    }
}

/// The shell in the meantime took the terminal for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_reads_again_that_was_in_the_background() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    let script =
        "read x; echo $$ > pid; while [ ! -e go ]; do :; done; read y; echo got $y; exit 5";
    terminal.types(&format!("clear; $L run a -- sh -c '{script}'"));
    terminal.holds("a").await;
    terminal.types("");
    let command = terminal.pid().await;
    terminal.keys("C-z");
    terminal.shows("Stopped").await;
    terminal.types("clear; bg; fg; echo code $?");
    eventually("it is in the foreground", LIMIT, async || {
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
        let fields: Vec<_> = stat.split(' ').collect();
        fields.len() > 7 && fields[2] != "T" && fields[4] == fields[7]
    })
    .await;
    std::fs::write(shell.file("go"), "").expect("a file");
    terminal.types("it");
    terminal.shows("got it").await;
    terminal.shows("code 5").await;
}

/// A command that was stopped for longer than the TTL does not continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_command_that_was_suspended_beyond_its_deadline_is_ended() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    let script = "echo $$ > pid; while :; do :; done";
    terminal.types(&format!("$L run --ttl 3s a -- sh -c '{script}'; echo code $?"));
    let command = terminal.pid().await;
    terminal.keys("C-z");
    terminal.shows("Stopped").await;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    terminal.types("clear; fg; echo code $?");
    terminal.shows("code 76").await;
    assert!(!is_running(command));
}

/// Starts a command whose child ignores SIGTERM, before another program of the same pipeline. Returns the processes of
/// `leasehold`, the command and the child.
async fn pipeline(terminal: &Terminal<'_>, grace: &str, command: &str) -> [u32; 3] {
    for file in ["leasehold", "pid", "child"] {
        let _ = std::fs::remove_file(terminal.shell.file(file));
    }
    let child = "trap '' TERM; echo $$ > child; exec sleep 600";
    std::fs::write(terminal.shell.file("ignores"), child).expect("a file");
    let script = format!("echo $PPID > leasehold; echo $$ > pid; {command}; sh ignores & wait");
    let neighbour = "(cat; echo so does the neighbour)";
    terminal.types(&format!(
        "clear; $L run --grace {grace} a -- sh -c '{script}' | {neighbour}; echo code ${{PIPESTATUS[0]}}"
    ));
    let [leasehold, child] = ["leasehold", "child"].map(|file| terminal.shell.pid(file));
    [leasehold.await, terminal.pid().await, child.await]
}

/// The command shares its group with the rest of a pipeline, so its processes are signalled one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_the_lock_is_kept_until_nothing_is_left_of_a_command_in_a_shared_group() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    let next = async || shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code;

    let [leasehold, command, child] = pipeline(&terminal, "600s", "true").await;
    send(leasehold, Signal::TERM);
    eventually("the command has ended", LIMIT, async || !is_running(command)).await;
    assert_eq!((next().await, is_running(child)), (75, true));
    // Two that come at once are one.
    tokio::time::sleep(Duration::from_millis(300)).await;
    send(leasehold, Signal::TERM);
    terminal.shows("code 143").await;
    assert_eq!((next().await, is_running(child)), (0, false));
    assert!(terminal.screen().contains("so does the neighbour"), "{}", terminal.screen());

    let [leasehold, command, child] = pipeline(&terminal, "1s", "trap \"\" TERM").await;
    send(leasehold, Signal::TERM);
    terminal.shows("code 137").await;
    assert_eq!((next().await, [command, child].map(is_running)), (0, [false; 2]));
    assert!(terminal.screen().contains("so does the neighbour"), "{}", terminal.screen());
}

/// A command that makes a group of its own in a shared one is killed with all of its group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_the_lock_is_kept_until_nothing_is_left_of_a_command_that_leaves_a_shared_group() {
    let shell = Shell::of(&File::start());
    let terminal = Terminal::open(&shell).await;
    let job = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done";
    std::fs::write(shell.file("job"), job).expect("a file");
    let run = "exec $L run --grace 1s a -- timeout 600 sh job";
    terminal.types(&format!("(echo $BASHPID > leasehold; {run}); echo code $?"));
    let (child, leasehold) = (terminal.pid().await, shell.pid("leasehold").await);
    send(leasehold, Signal::TERM);
    terminal.shows("code 137").await;
    assert!(!is_running(child), "the lock was given back beside it");
}
