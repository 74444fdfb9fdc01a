//! A command that one of several processes runs.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::LIMIT;
use crate::shell::{Output, Shell};
use crate::store::Store;

const SECOND: Duration = Duration::from_secs(1);

/// Runs a command with `options` repeatedly, until no other process has the lock.
async fn until_run(shell: &Shell, options: &[&str]) {
    let end = Instant::now() + LIMIT;
    loop {
        let args = [&["run", "-q", "--no-wait"], options, &["tick", "--", "true"]].concat();
        let Output { code, stderr, .. } = shell.run(&args).await;
        match code {
            0 => return,
            75 => assert!(Instant::now() < end, "nobody gets in again"),
            _ => panic!("{code}: {stderr}"),
        }
        sleep(SECOND / 10).await;
    }
}

/// C42: of twenty that start within a second one runs the command, and later ones find it done.
pub(crate) async fn c42_twenty_that_start_at_once_run_it_once(store: &impl Store) {
    let shell = Shell::of(store);
    let start = async |i: u32| {
        sleep(SECOND / 25 * i).await;
        let script = "echo $LEASEHOLD_TOKEN >> ran";
        let run = ["run", "-q", "--once", "2026-11-21", "nightly", "--", "sh", "-c", script];
        let end = Instant::now() + LIMIT;
        loop {
            let output = shell.run(&run).await;
            // The server may be too busy to answer in time, but not for ever.
            if output.code != 69 || Instant::now() > end {
                return output;
            }
        }
    };
    for Output { code, stderr, .. } in join_all((0..20).map(start)).await {
        assert!(code == 0 || code == 75 && stderr.is_empty(), "{code}: {stderr}");
    }
    let ran = shell.read("ran");
    assert_eq!(ran.lines().count(), 1, "{ran}");
    let later = shell.run(&["run", "--once", "2026-11-21", "nightly", "--", "false"]).await;
    assert_eq!((later.code, &*later.stdout), (0, ""), "{}", later.stderr);
    let done = format!("is done: it ran under token {}", ran.trim());
    assert!(later.stderr.contains(&done), "{}", later.stderr);
    let quiet = shell.run(&["run", "-q", "--once", "2026-11-21", "nightly", "--", "false"]).await;
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
    let next = shell.run(&["run", "--once", "2026-11-22", "nightly", "--", "false"]).await;
    assert_eq!(next.code, 1, "another occurrence runs: {}", next.stderr);
    let listed = shell.run(&["runs", "nightly"]).await;
    assert_eq!(listed.stdout, format!("2026-11-21  token {}\n", ran.trim()), "{}", listed.stderr);
    let json = shell.run(&["runs", "nightly", "--json"]).await.stdout;
    assert_eq!(
        json,
        format!(
            "{{\"version\":1,\"runs\":[{{\"key\":\"2026-11-21\",\"token\":{}}}]}}\n",
            ran.trim()
        )
    );
    for (code, said) in [(0, "forgot the run of"), (1, "no run is recorded of")] {
        let forgot = shell.run(&["runs", "nightly", "--forget", "2026-11-21"]).await;
        assert_eq!(forgot.code, code, "{}", forgot.stderr);
        assert!(forgot.stdout.starts_with(said), "{}", forgot.stdout);
    }
}

/// C41: a run that waits finds the present one done, starts the command when that one was killed, and has the exit code
/// of a busy lock at the end of its wait.
pub(crate) async fn c41_a_run_that_waits_for_another_is_done_or_runs(store: &impl Store) {
    let shell = Shell::of(store);
    let once = |key: &'static str, wait: &'static str| {
        let waits = ["-v", "run", "--ttl", "4s", "--once", key, "--wait", wait, "job", "--"];
        [&waits[..], &["sh", "-c", "echo >> waited"]].concat()
    };
    let present = async |key| {
        let script = "while [ ! -e go ]; do sleep 0.01; done";
        shell.hold(&["--ttl", "4s", "--once", key], "job", script).await
    };
    let mut first = present("x").await;
    let late = shell.run(&once("x", "1s")).await;
    assert!(late.code == 75 && late.stderr.contains("is held"), "{}: {}", late.code, late.stderr);
    let mut waits = shell.start(&once("x", "2m"));
    waits.waits().await;
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!([first.code().await, waits.code().await], [0, 0], "{}", waits.stderr());
    assert!(waits.stderr().contains("is done"), "{}", waits.stderr());
    assert_eq!(shell.read("waited"), "");

    std::fs::remove_file(shell.file("go")).expect("a file");
    let mut killed = present("y").await;
    let mut waits = shell.start(&once("y", "2m"));
    waits.waits().await;
    killed.send(Signal::KILL);
    killed.ended().await;
    assert_eq!(waits.code().await, 0, "{}", waits.stderr());
    assert_eq!(shell.read("waited"), "\n", "it ran once");
    let twice = ["run", "--at-least", "1s", "--wait", "1s", "job", "--", "true"];
    assert_eq!(shell.run(&twice).await.code, 64);
}

/// C42: a failed run is not recorded, and a run that is remembered briefly runs again.
pub(crate) async fn c42_a_run_that_failed_runs_again(store: &impl Store) {
    let shell = Shell::of(store);
    let run = async |command: &str| {
        let options = ["run", "--once", "x", "--remember", "8s", "job", "--", "sh", "-c", command];
        shell.run(&options).await.code
    };
    assert_eq!([run("exit 3").await, run("kill -TERM $$").await], [3, 143]);
    assert_eq!(run("echo once >> ran").await, 0);
    assert_eq!(run("echo twice >> ran; exit 4").await, 0, "it is done");
    assert_eq!(shell.read("ran"), "once\n");
    let end = Instant::now() + LIMIT;
    while run("exit 4").await != 4 {
        assert!(Instant::now() < end, "a record does not end");
        sleep(SECOND / 5).await;
    }
}

/// C41: a short command keeps others out for the span, also if `leasehold` is killed, and no longer than the
/// longer of span and TTL.
pub(crate) async fn c41_a_short_command_keeps_others_out_for_the_span(store: &impl Store) {
    let shell = Shell::of(store);
    let began = Instant::now();
    until_run(&shell, &["--at-least", "5s"]).await;
    let twenty = join_all((0..20).map(async |_| {
        let args = ["run", "-q", "--at-least", "5s", "tick", "--", "touch", "twice"];
        shell.run(&args).await.code
    }));
    let (codes, tried) = (twenty.await, began.elapsed());
    assert!(tried > 5 * SECOND || codes.iter().all(|code| *code == 75), "{codes:?} in {tried:?}");
    until_run(&shell, &["--ttl", "3s"]).await;
    assert!(began.elapsed() >= 5 * SECOND, "another ran it after {:?}", began.elapsed());

    let began = Instant::now();
    let killed = shell.hold(&["--at-least", "4s", "--ttl", "3s"], "tick", "exec sleep 60").await;
    killed.send(Signal::KILL);
    until_run(&shell, &["--ttl", "3s"]).await;
    assert!(began.elapsed() >= 4 * SECOND, "another ran it after {:?}", began.elapsed());
}

/// C42: a command that was told to stop may be incomplete, even if it exits with 0.
pub(crate) async fn c42_a_run_that_was_told_to_stop_is_not_recorded(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "trap 'exit 0' TERM INT; echo > ready; while :; do sleep 0.01; done";
    for signal in [Signal::TERM, Signal::INT] {
        let _ = std::fs::remove_file(shell.file("ready"));
        let mut held = shell.hold(&["--once", "x"], "job", script).await;
        shell.appears("ready").await;
        held.send(signal);
        assert_eq!(held.code().await, 73, "{}", held.stderr());
        assert!(held.stderr().contains("told to stop"), "{}", held.stderr());
    }
    let next = shell.run(&["run", "--once", "x", "job", "--", "touch", "ran"]).await;
    assert!(next.code == 0 && shell.file("ran").exists(), "{}: {}", next.code, next.stderr);
}

/// C42: the exit code must tell a run without a record, which may run again, from a command that did not run.
pub(crate) async fn c42_a_run_that_may_not_be_recorded_has_a_code_of_its_own(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "while [ ! -e go ]; do sleep 0.01; done";
    let mut held = shell.hold(&["--once", "x", "--ttl", "5s"], "job", script).await;
    assert!(store.stop(), "there is a server to stop");
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(held.code().await, 73, "{}", held.stderr());
    assert!(held.stderr().contains("ran, and may not be recorded"), "{}", held.stderr());
}

/// C42: a server that is down for longer than a request time-out costs no record.
pub(crate) async fn c42_a_run_is_recorded_when_the_server_answers_again(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "while [ ! -e go ]; do sleep 0.01; done";
    let mut held = shell.hold(&["--once", "x", "--ttl", "30s"], "job", script).await;
    assert!(store.stop(), "there is a server to stop");
    std::fs::write(shell.file("go"), "").expect("a file");
    sleep(5 * SECOND).await;
    store.go_on();
    assert_eq!(held.code().await, 0, "{}", held.stderr());
    let next = shell.run(&["run", "--once", "x", "job", "--", "false"]).await;
    assert_eq!(next.code, 0, "it is done: {}", next.stderr);
}
