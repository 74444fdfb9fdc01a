//! Ends of a command: by a signal, or because its lock is lost.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lock_testkit::{eventually, is_running};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::shell::{Output, Shell, send};
use crate::store::{File, Store};
use crate::{LIMIT, SLACK};

/// A command that a signal ends at once, with a child that first cleans up.
const CLEANS_UP: &str = "(trap 'echo > asked; while [ ! -e go ]; do sleep 0.01; done; exit' TERM; \
                         echo > ready; while :; do sleep 0.01; done) & wait";

/// A command with a child that ignores signals.
const LEAVES_A_CHILD: &str = "(trap '' TERM; exec sleep 600) & echo $! > child; wait";

pub(crate) async fn c08_the_lock_is_kept_while_what_a_signal_ended_cleans_up(store: &impl Store) {
    let shell = Shell::of(store);
    let mut held = shell.hold(&["--ttl", "9s", "--grace", "60s"], "a", CLEANS_UP).await;
    let command = shell.pid("pid").await;
    shell.appears("ready").await;
    held.send(Signal::TERM);
    shell.appears("asked").await;
    eventually("the command has ended", LIMIT, async || !is_running(command)).await;
    sleep(Duration::from_secs(9) + SLACK).await;
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 75);
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(held.code().await, 128 + 15, "{}", held.stderr());
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 0);
}

pub(crate) async fn c08_a_loss_is_told_at_once_and_a_second_interruption_kills(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "trap 'echo > asked' TERM; trap 'echo > interrupted' INT; \
                  while :; do sleep 0.05; done";
    let mut held = shell.hold(&["--ttl", "2s", "--grace", "600s"], "a", script).await;
    let command = shell.pid("pid").await;
    store.wipe().await;
    shell.appears("asked").await;
    assert!(held.stderr().contains("was lost while the command ran"), "{}", held.stderr());
    held.send(Signal::INT);
    shell.appears("interrupted").await;
    assert!(is_running(command), "killed by the first interruption");
    // Two that come at once are one.
    sleep(Duration::from_millis(300)).await;
    held.send(Signal::INT);
    assert_eq!(held.code().await, 76, "{}", held.stderr());
    assert!(!is_running(command));
    assert_eq!(held.stderr().matches("leasehold: ").count(), 1, "{}", held.stderr());
}

#[tokio::test]
async fn what_outlasts_the_grace_after_a_signal_is_killed() {
    let shell = Shell::of(&File::start());
    for to_command in [false, true] {
        let _ = std::fs::remove_file(shell.file("child"));
        let mut held = shell.hold(&["--grace", "300ms"], "a", LEAVES_A_CHILD).await;
        let (command, child) = (shell.pid("pid").await, shell.pid("child").await);
        send(if to_command { command } else { held.pid() }, Signal::TERM);
        assert_eq!(held.code().await, 128 + 15, "{}", held.stderr());
        eventually("the child is gone", LIMIT, async || !is_running(child)).await;
    }
}

/// A command that ignores the request to end.
const IGNORES: &str = "trap '' TERM INT HUP; echo > ready; while :; do sleep 0.05; done";

/// `docker stop` and systemd kill after a time: a leasehold that waited for longer would leave the lock to its TTL.
#[tokio::test]
async fn a_command_that_ignores_a_request_to_end_is_killed_after_the_grace() {
    let shell = Shell::of(&File::start());
    for verb in ["run", "elect"] {
        let ended = async |grace: &str, signals: &[Signal]| {
            let _ = std::fs::remove_file(shell.file("ready"));
            let script = format!("echo $$ > pid; {IGNORES}");
            let mut held = shell.start(&[verb, "--grace", grace, "a", "--", "sh", "-c", &script]);
            shell.appears("ready").await;
            let command = shell.pid("pid").await;
            for signal in signals {
                assert!(is_running(command), "{verb}: killed before {signal:?}");
                held.send(*signal);
                // Two signals of one kind may arrive as one.
                sleep(Duration::from_millis(300)).await;
            }
            assert_eq!(held.code().await, 128 + 9, "{verb}: {}", held.stderr());
            assert!(!is_running(command), "{verb}");
            let next = shell.run(&["run", "--no-wait", "a", "--", "true"]).await;
            assert_eq!(next.code, 0, "{verb}: the lock stays: {}", next.stderr);
        };
        ended("1s", &[Signal::TERM]).await;
        ended("600s", &[Signal::TERM, Signal::TERM]).await;
        ended("600s", &[Signal::INT, Signal::HUP, Signal::TERM, Signal::INT]).await;
    }
}

/// The lock covers the command, which ended by itself.
#[tokio::test]
async fn what_a_command_leaves_running_is_left_alone() {
    let shell = Shell::of(&File::start());
    let script = "sleep 600 > /dev/null 2>&1 & echo $! > child";
    let output = shell.run(&["run", "--grace", "600s", "a", "--", "sh", "-c", script]).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    let child = shell.pid("child").await;
    assert!(is_running(child));
    send(child, Signal::KILL);
}

#[tokio::test]
async fn a_grace_without_end_is_none_that_overflows() {
    let store = File::start();
    let shell = Shell::of(&store);
    let options = ["--ttl", "9s", "--grace", "500000000000y"];
    let mut held = shell.hold(&options, "a", "exec sleep 60").await;
    store.wipe().await;
    assert_eq!(held.code().await, 76, "{}", held.stderr());
}

/// Orphans belong to us if we are the first process of a container, or a subreaper; the test uses the latter.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_orphan_is_reaped_while_the_command_runs() {
    const SUBREAPER: &str = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); \
                             os.execv(sys.argv[1], sys.argv[1:])";
    let shell = Shell::of(&File::start());
    let script = "(sh -c 'while [ ! -e go ]; do sleep 0.01; done' & echo $! > orphan); echo > ready; \
                  while [ -e /proc/$(cat orphan) ]; do sleep 0.01; done; echo reaped";
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let run = ["-c", SUBREAPER, leasehold, "run", "a", "--", "sh", "-c", script];
    let running = tokio::spawn(Output::of(shell.command("python3", &run)));
    shell.appears("ready").await;
    std::fs::write(shell.file("go"), "").expect("a file");
    let output = running.await.expect("no panic");
    assert_eq!((output.code, &*output.stdout), (0, "reaped\n"), "{}", output.stderr);
}

/// `timeout` makes its own process group unless it is the command itself, or has the option against it.
#[tokio::test]
async fn c08_a_loss_ends_what_runs_under_timeout() {
    let store = File::start();
    let shell = Shell::of(&store);
    let sleeper = "echo $$ > pid; echo > holds; exec sleep 600";
    let in_script = format!("timeout --foreground 600 sh -c '{sleeper}'; true");
    for command in [&["timeout", "600", "sh", "-c", sleeper][..], &["sh", "-c", &in_script]] {
        let _ = std::fs::remove_file(shell.file("pid"));
        let mut held = shell.start(&[&["run", "--ttl", "9s", "a", "--"], command].concat());
        let sleeper = shell.pid("pid").await;
        store.wipe().await;
        assert_eq!(held.code().await, 76, "{}", held.stderr());
        eventually("it is gone", LIMIT, async || !is_running(sleeper)).await;
    }
}

#[tokio::test]
async fn a_command_that_left_its_group_is_signalled_all_the_same() {
    let shell = Shell::of(&File::start());
    let script = "exec perl -e '$c = fork; if (!$c) { setpgrp(0, 0); exec \"sleep\", \"600\" } \
                  select(undef, undef, undef, 0.01) until eval { setpgrp(0, $c) }; \
                  open F, \">child\"; print F \"$c\\n\"; close F; sleep 600'";
    let mut held = shell.hold(&[], "a", script).await;
    let child = shell.pid("child").await;
    held.send(Signal::TERM);
    assert_eq!(held.code().await, 128 + 15, "{}", held.stderr());
    send(child, Signal::KILL);
}

/// Needs two users; only root can act as both.
#[tokio::test]
async fn a_command_that_may_not_be_signalled_is_told_of() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let shell = Shell::without_url();
    let prepared = "cp $L leasehold; cp $(command -v setpriv) root; chmod 4755 root";
    assert_eq!(Output::of(shell.command("sh", &["-c", prepared])).await.code, 0);
    std::fs::set_permissions(shell.file(""), Permissions::from_mode(0o777)).expect("it is ours");
    let url = format!("file:{}", shell.file("locks").display());
    let other = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let command = "echo $$ > pid; exec sleep 600";
    let run = ["./leasehold", "run", "a", "--", "./root", "--reuid=0", "sh", "-c", command];
    let log = std::fs::File::create(shell.file("log")).expect("a file");
    let mut leasehold = shell.command("setpriv", &[&other[..], &run].concat());
    let mut leasehold = leasehold.env("LEASEHOLD_URL", url).stderr(log).spawn().expect("it starts");
    let command = shell.pid("pid").await;
    send(leasehold.id().expect("it runs"), Signal::TERM);
    eventually("it is told", LIMIT, async || shell.read("log").contains("another user")).await;
    assert!(is_running(command));
    send(command, Signal::KILL);
    let status = tokio::time::timeout(LIMIT, leasehold.wait()).await.expect("it ends");
    assert_eq!(status.expect("it is ours").code(), Some(128 + 9), "{}", shell.read("log"));
}

/// A script that runs `leasehold` without a terminal must not be stopped by it.
#[tokio::test]
async fn a_stop_by_kill_stops_us_and_the_command_alone() {
    let shell = Shell::of(&File::start());
    let command = "echo $$ > pid; while [ ! -e go ]; do :; done";
    let script = format!(
        "$L run a -- sh -c '{command}' & echo $! > leasehold; \
         while [ ! -e go ]; do echo >> beats; sleep 0.01; done; wait $!"
    );
    let mut caller = shell.command("setsid", &["--wait", "sh", "-c", &script]);
    let mut caller = caller.spawn().expect("it starts");
    let (leasehold, command) = (shell.pid("leasehold").await, shell.pid("pid").await);
    send(leasehold, Signal::TSTP);
    for stopped in [leasehold, command] {
        eventually("it is stopped", LIMIT, async || is_stopped(stopped)).await;
    }
    let beats = shell.read("beats").len();
    eventually("the caller goes on", LIMIT, async || shell.read("beats").len() > beats + 5).await;
    send(leasehold, Signal::CONT);
    eventually("the command goes on", LIMIT, async || !is_stopped(command)).await;
    std::fs::write(shell.file("go"), "").expect("a file");
    let status = tokio::time::timeout(LIMIT, caller.wait()).await.expect("it ends");
    assert_eq!(status.expect("it is ours").code(), Some(0));
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains(") T ")
}
