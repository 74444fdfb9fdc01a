//! `leasehold hold`: a lock for the program that started it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use lock_testkit::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::{sleep, timeout};

use crate::shell::{Shell, send};
use crate::store::{File, Store};
use crate::{LIMIT, SLACK};

/// A `leasehold hold` whose standard input the test writes.
struct Holding {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Holding {
    fn start(shell: &Shell, args: &[&str]) -> Self {
        let mut command = shell.leasehold(&[&["hold"], args].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, output }
    }

    async fn event(&mut self) -> Value {
        let line = timeout(LIMIT, self.output.next_line()).await.expect("in time");
        serde_json::from_str(&line.expect("UTF-8").expect("a line")).expect("JSON")
    }

    /// Sends a line.
    async fn ask(&mut self, line: impl ToString) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all((line.to_string() + "\n").as_bytes()).await.expect("it reads");
    }

    /// Reads an event of this kind and id.
    async fn told(&mut self, kind: &str, id: &str) -> Value {
        let event = self.event().await;
        assert_eq!((&event["event"], &event["id"]), (&kind.into(), &id.into()), "{event}");
        event
    }

    fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    async fn code(&mut self) -> i32 {
        // Waiting would close the input.
        let _input = self.child.stdin.take();
        let status = timeout(LIMIT, self.child.wait()).await.expect("it ends").expect("it is ours");
        status.code().expect("no signal ended it")
    }
}

async fn is_free(shell: &Shell, name: &str) -> bool {
    shell.run(&["inspect", "--exit-code", name]).await.code == 1
}

pub(crate) async fn a_program_holds_a_lock_until_its_input_ends(store: &impl Store) {
    let shell = Shell::of(store);
    let mut holding = Holding::start(&shell, &["b", "a"]);
    let held = holding.event().await;
    assert_eq!((&held["event"], &held["name"]), (&"held".into(), &"b".into()), "{held}");
    assert_eq!(held["tokens"]["b"], held["token"], "{held}");
    assert!(held["tokens"]["a"].is_u64() && held["ttl_ms"].as_u64() > Some(0), "{held}");
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 75);
    holding.end_input();
    assert_eq!(holding.code().await, 0);
    assert!(is_free(&shell, "a").await && is_free(&shell, "b").await);
}

pub(crate) async fn c08_a_program_reads_of_the_loss_of_its_lock(store: &impl Store) {
    let shell = Shell::of(store);
    let mut holding = Holding::start(&shell, &["--ttl", "6s", "a"]);
    assert_eq!(holding.event().await["event"], "held");
    assert_eq!(shell.run(&["evict", "--force", "a"]).await.code, 0);
    let lost = holding.event().await;
    assert_eq!((&lost["event"], &lost["name"]), (&"lost".into(), &"a".into()), "{lost}");
    assert!(lost["reason"].is_string(), "{lost}");
    assert_eq!(holding.code().await, 76);
}

pub(crate) async fn a_program_holds_locks_on_request(store: &impl Store) {
    let shell = Shell::of(store);
    let mut holding = Holding::start(&shell, &["--json-lines", "--ttl", "9s"]);
    holding.ask(json!({"acquire": "a", "id": "1", "ttl_ms": 60000})).await;
    let a = holding.told("held", "1").await;
    assert_eq!((&a["name"], &a["tokens"]["a"]), (&"a".into(), &a["token"]), "{a}");
    assert!(a["ttl_ms"].as_u64() > Some(9000), "{a}");
    holding.ask(json!({"acquire": "a", "id": "2", "wait_ms": 0})).await;
    let busy = holding.told("busy", "2").await;
    assert!(busy["reason"].as_str().is_some_and(|why| why.contains("is held")), "{busy}");
    holding.ask(json!({"acquire": ["c", "b"], "id": "2"})).await;
    let both = holding.told("held", "2").await;
    assert!(both["tokens"]["b"].is_u64() && both["name"] == "c", "{both}");
    holding.ask(json!({"release": "1"})).await;
    holding.told("released", "1").await;
    assert!(is_free(&shell, "a").await && !is_free(&shell, "b").await);
    assert_eq!(shell.run(&["evict", "--force", "b"]).await.code, 0);
    let lost = holding.told("lost", "2").await;
    assert!(lost["name"] == "b" && lost["reason"].is_string(), "{lost}");
    eventually("the other is given back", LIMIT, async || is_free(&shell, "c").await).await;
    holding.ask(json!({"acquire": "a"})).await;
    holding.told("held", "a").await;
    holding.end_input();
    holding.told("released", "a").await;
    assert_eq!(holding.code().await, 0);
    assert!(is_free(&shell, "a").await);
}

#[tokio::test]
async fn lines_that_cannot_be_understood_are_told_of() {
    let shell = Shell::of(&File::start());
    let mut holding = Holding::start(&shell, &["--json-lines"]);
    holding.ask(json!({"acquire": "a", "id": "1"})).await;
    holding.told("held", "1").await;
    for (line, id, says) in [
        ("nonsense", None, "not understood"),
        (r#"{"acquire":"b","id":"2","ttl":1}"#, Some("2"), "unknown field `ttl`"),
        (r#"{"acquire":7,"id":"2"}"#, Some("2"), "a name, or an array of names"),
        (r#"{"acquire":"","id":"2"}"#, Some("2"), "invalid lock name"),
        (r#"{"acquire":[],"id":"2"}"#, Some("2"), "name a lock"),
        (r#"{"acquire":"b","id":"2","ttl_ms":1}"#, Some("2"), "choose 10 ms to 24 h"),
        (r#"{"acquire":"b","id":"2","limit":2,"shared":true}"#, Some("2"), "either shared"),
        (r#"{"acquire":"b","id":"2","take":2}"#, Some("2"), "take goes with limit"),
        (r#"{"acquire":"b","id":"2","limit":0}"#, Some("2"), "invalid permits"),
        (r#"{"acquire":"redis://:secret@h","id":"2"}"#, Some("2"), "names and labels are public"),
        (r#"{"id":"2"}"#, Some("2"), "either acquire or release"),
        (r#"{"acquire":"b","id":"1"}"#, None, "id \"1\" is in use"),
        // An empty name would look like the end of the hold.
        (r#"{"acquire":"","id":"1"}"#, None, "invalid lock name"),
    ] {
        holding.ask(line).await;
        let event = holding.event().await;
        let told = (event["event"].as_str(), event["code"].as_u64(), event["id"].as_str());
        assert_eq!(told, (Some("error"), Some(64), id), "{line}: {event}");
        assert!(event["reason"].as_str().is_some_and(|why| why.contains(says)), "{line}: {event}");
        assert!(!event.to_string().contains("secret"), "{event}");
    }
    assert!(!is_free(&shell, "a").await);
    let usage = shell.run(&["hold", "--json-lines", "a"]).await;
    assert_eq!(usage.code, 64, "{}", usage.stderr);
}

#[tokio::test]
async fn a_release_ends_a_wait_and_a_signal_all_holds() {
    let shell = Shell::of(&File::start());
    let mut first = Holding::start(&shell, &["a"]);
    first.event().await;
    let mut second = Holding::start(&shell, &["--json-lines"]);
    second.ask(json!({"acquire": "a"})).await;
    let waiters = async || shell.run(&["inspect", "--json", "a"]).await.stdout;
    eventually("it waits", LIMIT, async || waiters().await.contains("\"waiters\":1")).await;
    second.ask(json!({"release": "a"})).await;
    second.told("released", "a").await;
    eventually("it left", LIMIT, async || waiters().await.contains("\"waiters\":0")).await;
    for name in ["b", "c"] {
        second.ask(json!({"acquire": name, "limit": 2})).await;
        assert_eq!(second.told("held", name).await["slots"], json!([0]));
    }
    send(second.child.id().expect("it runs"), Signal::TERM);
    assert_eq!(second.code().await, 128 + 15);
    assert!(is_free(&shell, "b").await && is_free(&shell, "c").await);
}

/// A program that does not read its events fills the pipe.
#[tokio::test]
async fn locks_are_renewed_while_nobody_reads_of_others() {
    let shell = Shell::of(&File::start());
    let mut holding = Holding::start(&shell, &["--json-lines", "--ttl", "9s"]);
    holding.ask(json!({"acquire": "a", "id": "1"})).await;
    holding.told("held", "1").await;
    for id in 0..2000 {
        let id = format!("{id}{}", "x".repeat(200));
        holding.ask(json!({"acquire": "a", "id": id, "wait_ms": 0})).await;
    }
    holding.ask(json!({"acquire": "last"})).await;
    eventually("it read all", LIMIT, async || !is_free(&shell, "last").await).await;
    sleep(Duration::from_secs(9) + SLACK).await;
    assert!(!is_free(&shell, "a").await, "nobody renewed it");
    holding.end_input();
    while holding.output.next_line().await.expect("UTF-8").is_some() {}
    assert_eq!(holding.code().await, 0);
}

#[tokio::test]
async fn a_program_that_goes_away_while_it_waits_leaves_the_line() {
    let shell = Shell::of(&File::start());
    let mut first = Holding::start(&shell, &["a"]);
    first.event().await;
    let mut second = Holding::start(&shell, &["a"]);
    let waiters = async || shell.run(&["inspect", "--json", "a"]).await.stdout;
    eventually("it waits", LIMIT, async || waiters().await.contains("\"waiters\":1")).await;
    second.end_input();
    assert_eq!(second.code().await, 0);
    assert!(waiters().await.contains("\"waiters\":0"));
    let mut third = Holding::start(&shell, &["--no-wait", "a"]);
    assert_eq!(third.code().await, 75);
    first.end_input();
    assert_eq!(first.code().await, 0);
}

#[tokio::test]
async fn a_signal_gives_the_lock_back() {
    let shell = Shell::of(&File::start());
    let mut holding = Holding::start(&shell, &["--limit", "3", "a"]);
    assert_eq!(holding.event().await["slots"], serde_json::json!([0]));
    send(holding.child.id().expect("it runs"), Signal::TERM);
    assert_eq!(holding.code().await, 128 + 15);
    assert!(is_free(&shell, "a").await);
}

/// Ctrl-C at a terminal also reaches the program, which may be cleaning up.
#[tokio::test]
async fn signals_of_a_terminal_are_left_to_the_program() {
    let shell = Shell::of(&File::start());
    for args in [&["a"][..], &["--json-lines"]] {
        let mut holding = Holding::start(&shell, args);
        holding.ask(json!({"acquire": "a"})).await;
        holding.event().await;
        for signal in [Signal::INT, Signal::HUP, Signal::QUIT] {
            send(holding.child.id().expect("it runs"), signal);
        }
        assert!(!is_free(&shell, "a").await, "{args:?}");
        holding.end_input();
        assert_eq!(holding.code().await, 0, "{args:?}");
        assert!(is_free(&shell, "a").await, "{args:?}");
    }
}

/// A process that inherits the input of `hold` keeps it open, so the hold lasts until the named process has ended.
#[tokio::test]
async fn a_hold_lasts_until_its_process_has_ended() {
    let shell = Shell::of(&File::start());
    for args in [&["a"][..], &["--json-lines"]] {
        let mut process = shell.command("sleep", &["600"]).spawn().expect("it starts");
        let pid = process.id().expect("it runs").to_string();
        let mut holding = Holding::start(&shell, &[&["--pid", &pid], args].concat());
        holding.ask(json!({"acquire": "a"})).await;
        assert_eq!(holding.event().await["event"], "held");
        if args == ["a"] {
            holding.end_input();
        }
        for signal in [Signal::INT, Signal::HUP, Signal::QUIT] {
            send(holding.child.id().expect("it runs"), signal);
        }
        assert!(!is_free(&shell, "a").await, "{args:?}");
        // Leaves a zombie, which the test reaps below.
        send(process.id().expect("it runs"), Signal::KILL);
        let code = timeout(LIMIT, holding.child.wait()).await.expect("it ends");
        assert_eq!(code.expect("it is ours").code(), Some(0), "{args:?}");
        assert!(is_free(&shell, "a").await, "{args:?}");
        process.wait().await.expect("it is ours");
        let late = shell.run(&["hold", "--pid", &pid, "a"]).await;
        assert!(late.code == 64 && late.stderr.contains("no such process"), "{}", late.stderr);
    }
}

/// The pipe of a killed program closes.
pub(crate) async fn a_program_that_is_killed_frees_its_lock(store: &impl Store) {
    let shell = Shell::of(store);
    for (number, hold) in ["hold a", "hold --json-lines"].into_iter().enumerate() {
        // The wait is a separate command: a child would share the pipe, and outlive the program.
        let script = format!(
            "exec 8> >(\"$L\" {hold} > held{number}); echo '{{\"acquire\":\"a\"}}' >&8; \
             mkfifo never{number}; read -r <> never{number}"
        );
        let mut program = shell.command("bash", &["-c", &script]).spawn().expect("bash starts");
        let held = format!("held{number}");
        eventually("it holds", LIMIT, async || shell.read(&held).ends_with('\n')).await;
        assert!(!is_free(&shell, "a").await);
        program.kill().await.expect("it is ours");
        eventually("the lock is free", LIMIT, async || is_free(&shell, "a").await).await;
    }
}

/// A lock from one command to another, by a file for its user alone.
pub(crate) async fn a_later_command_gives_the_lock_back(store: &impl Store) {
    let shell = Shell::of(store);
    let acquire = ["acquire", "--for", "30s", "--no-wait", "--lease", "lease", "a"];
    let held = shell.run(&acquire).await;
    assert_eq!(held.code, 0, "{}", held.stderr);
    let event: Value = serde_json::from_str(&held.stdout).expect("JSON");
    let ttl = event["ttl_ms"].as_u64().expect("a TTL");
    assert!(event["event"] == "held" && (10_000..=30_000).contains(&ttl), "{event}");
    let mode = shell.file("lease").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = shell.run(&acquire).await;
    assert_eq!(again.code, 64, "the file is not overwritten: {}", again.stderr);
    let busy = shell.run(&["run", "--no-wait", "a", "--", "true"]).await;
    assert_eq!(busy.code, 75, "{}", busy.stderr);
    let released = shell.run(&["release", "--lease", "lease"]).await;
    assert_eq!(released.code, 0, "{}", released.stderr);
    assert!(!shell.file("lease").exists());
    let free = shell.run(&["run", "--no-wait", "a", "--", "true"]).await;
    assert_eq!(free.code, 0, "{}", free.stderr);
}

/// A release of a hold that is over tells that others may have had the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_over_is_not_given_back() {
    let shell = Shell::of(&File::start());
    let held = shell.run(&["acquire", "--for", "1h", "--lease", "lease", "a"]).await;
    assert_eq!(held.code, 0, "{}", held.stderr);
    shell.run(&["release", "--force", "a"]).await;
    let late = shell.run(&["release", "--lease", "lease"]).await;
    assert!(late.code == 76 && late.stderr.contains("is lost"), "{} {}", late.code, late.stderr);
    assert!(!shell.file("lease").exists());
}

/// A lock whose lease cannot be written is not held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_without_a_place_holds_no_lock() {
    let shell = Shell::of(&File::start());
    let unwritten =
        shell.run(&["acquire", "--for", "1h", "--lease", "no/such/folder/lease", "a"]).await;
    assert_eq!(unwritten.code, 74, "{}", unwritten.stderr);
    let bad = shell.run(&["release", "--lease", "lease"]).await;
    assert_eq!(bad.code, 64, "{}", bad.stderr);
    let free = shell.run(&["inspect", "--exit-code", "a"]).await;
    assert_eq!(free.code, 1, "{}", free.stderr);
}

/// C1: a space is a part of the name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_a_lock_whose_name_ends_with_a_space_is_given_back() {
    let shell = Shell::of(&File::start());
    let held = shell.run(&["acquire", "--for", "1h", "--lease", "lease", "a "]).await;
    assert_eq!(held.code, 0, "{}", held.stderr);
    let released = shell.run(&["release", "--lease", "lease"]).await;
    assert_eq!(released.code, 0, "{}", released.stderr);
    assert!(is_free(&shell, "a ").await);
}

/// A caller that is told of a failure does not give the lock back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_cannot_be_told_is_given_back() {
    let shell = Shell::of(&File::start());
    let mut acquire = shell.leasehold(&["acquire", "--for", "1h", "--lease", "lease", "a"]);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let mut acquiring = acquire.stdout(full).spawn().expect("it starts");
    let status = timeout(LIMIT, acquiring.wait()).await.expect("it ends").expect("it is ours");
    assert_eq!(status.code(), Some(74));
    assert!(is_free(&shell, "a").await && !shell.file("lease").exists());
}

/// A lease is given back at its own store alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_stays_if_it_is_of_another_store() {
    let (shell, elsewhere) = (Shell::of(&File::start()), File::start());
    let held = shell.run(&["acquire", "--for", "1h", "--lease", "lease", "a"]).await;
    assert_eq!(held.code, 0, "{}", held.stderr);
    let release = ["release", "--lease", "lease"];
    let refused = shell.run(&[&["--url", &*elsewhere.url()], &release[..]].concat()).await;
    assert!(refused.code == 64 && refused.stderr.contains(&elsewhere.url()), "{}", refused.stderr);
    let released = shell.run(&release).await;
    assert_eq!(released.code, 0, "{}", released.stderr);
}
