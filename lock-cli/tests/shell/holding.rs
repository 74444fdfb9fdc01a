//! `leasehold hold`: a lock for the program that started it.

use std::process::Stdio;

use lock_testkit::eventually;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::LIMIT;
use crate::shell::{Shell, send};
use crate::store::{File, Store};

/// A `leasehold hold` whose input is ours.
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

    fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    async fn code(&mut self) -> i32 {
        // Waiting would end the input.
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
    let mut holding = Holding::start(&shell, &["--ttl", "2s", "a"]);
    assert_eq!(holding.event().await["event"], "held");
    assert_eq!(shell.run(&["evict", "--force", "a"]).await.code, 0);
    let lost = holding.event().await;
    assert_eq!((&lost["event"], &lost["name"]), (&"lost".into(), &"a".into()), "{lost}");
    assert!(lost["reason"].is_string(), "{lost}");
    assert_eq!(holding.code().await, 76);
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

/// The pipe of a killed program closes.
#[tokio::test]
async fn a_program_that_is_killed_frees_its_lock() {
    let shell = Shell::of(&File::start());
    // It waits by a command of its own: a child would have the pipe too, and outlive it.
    let script = "exec 8> >(\"$L\" hold a > held); mkfifo never; read -r <> never";
    let mut program = shell.command("bash", &["-c", script]).spawn().expect("bash starts");
    eventually("it holds", LIMIT, async || shell.read("held").ends_with('\n')).await;
    assert!(!is_free(&shell, "a").await);
    program.kill().await.expect("it is ours");
    eventually("the lock is free", LIMIT, async || is_free(&shell, "a").await).await;
}
