//! Losses of the lock while the command runs.

use std::io::Write;
use std::time::{Duration, Instant};

use lock_testkit::{Mode, Proxy, eventually, is_running};
use tokio::time::timeout;

use crate::shell::Shell;
use crate::store::{File, Redis, Store};
use crate::unreleased::{forbid, shell_of_a_user};
use crate::{LIMIT, SLACK};

const TTL: Duration = Duration::from_secs(9);
const GRACE: Duration = Duration::from_secs(6);
const SECOND: Duration = Duration::from_secs(1);

const OPTIONS: [&str; 4] = ["--ttl", "9s", "--grace", "6s"];

/// A command that is asked to end and does not, with a child that ignores signals.
const STUBBORN: &str = "trap 'echo > asked' TERM; (trap '' TERM; exec sleep 600) & \
                        echo $! > child; while :; do sleep 0.05; done";

pub(crate) async fn c08_lost_data_ends_the_command(store: &impl Store) {
    let shell = Shell::of(store);
    let mut held = shell.hold(&OPTIONS, "a", "exec sleep 60").await;
    store.wipe().await;
    let (code, took) = held.code_since(Instant::now()).await;
    assert_eq!(code, 76, "{}", held.stderr());
    assert!(took < TTL / 3 + SECOND + SLACK, "ended after {took:?}");
    assert!(held.stderr().contains("was lost while the command ran"), "{}", held.stderr());
}

pub(crate) async fn c39_the_loss_of_one_of_several_locks_ends_the_command(store: &impl Store) {
    let shell = Shell::of(store);
    let options = ["--ttl", "15s", "c", "b"];
    let mut held = shell.hold(&options, "a", "exec sleep 60").await;
    assert_eq!(shell.run(&["release", "--force", "b"]).await.code, 0);
    assert_eq!(held.code().await, 76, "{}", held.stderr());
    assert!(held.stderr().contains("\"b\" was lost while the command ran"), "{}", held.stderr());
    let next = shell.run(&["run", "--no-wait", "a", "b", "c", "--", "true"]).await;
    assert_eq!(next.code, 0, "the others are given back: {}", next.stderr);
}

pub(crate) async fn c08_lost_data_ends_a_command_that_will_not_end(store: &impl Store) {
    let shell = Shell::of(store);
    let mut held = shell.hold(&OPTIONS, "a", STUBBORN).await;
    let (command, child) = (shell.pid("pid").await, shell.pid("child").await);
    store.wipe().await;
    let (code, took) = held.code_since(Instant::now()).await;
    assert_eq!(code, 76, "{}", held.stderr());
    let asked = shell.file("asked").metadata().and_then(|asked| asked.modified());
    let grace = asked.expect("it was asked").elapsed().expect("in the past");
    assert!(grace > GRACE / 2, "no grace but {grace:?}");
    assert!(took < TTL / 3 + SECOND + GRACE + SLACK, "ended after {took:?}");
    assert!(!is_running(command), "the command outlived its lock");
    eventually("its child is gone", LIMIT, async || !is_running(child)).await;
}

/// The command's work may have overlapped another holder's work, which the exit code must show.
pub(crate) async fn c08_a_loss_is_told_though_the_command_ended_first(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "while [ ! -e go ]; do sleep 0.01; done";
    let mut held = shell.hold(&["--ttl", "60s"], "a", script).await;
    store.wipe().await;
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(held.code().await, 76, "{}", held.stderr());
}

pub(crate) async fn c09_a_stopped_server_ends_the_command_by_the_deadline(store: &impl Store) {
    let shell = Shell::of(store);
    let mut held = shell.hold(&OPTIONS, "a", STUBBORN).await;
    assert!(store.stop(), "there is a server to stop");
    let (code, took) = held.code_since(Instant::now()).await;
    assert_eq!(code, 76, "{}", held.stderr());
    assert!(took < TTL + GRACE + SECOND + SLACK, "ended after {took:?}");
}

/// C8, C13: a loss names its cause: the server's answer to the last renewal, or the bound if nothing failed.
#[tokio::test]
async fn c08_a_loss_names_its_cause() {
    let redis = Redis::start().await;
    let shell = shell_of_a_user(&redis);
    let options = ["--ttl", "9s", "--at-most", "100ms"];
    let mut held = shell.hold(&options, "a", "exec sleep 60").await;
    assert_eq!(held.code().await, 76, "{}", held.stderr());
    assert!(held.stderr().contains("`max_hold` ended"), "{}", held.stderr());
    let mut held = shell.hold(&["--ttl", "9s"], "b", "exec sleep 60").await;
    forbid(&redis);
    assert_eq!(held.code().await, 76, "{}", held.stderr());
    assert!(held.stderr().contains("no permissions"), "{}", held.stderr());
}

/// C8: the server heard the last renewals, whose answers were lost. So it keeps the hold for longer than its holder
/// believed in it, unless the holder gives it back.
#[tokio::test]
async fn c08_a_lost_hold_is_given_back() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.0.addr()).await;
    let shell = Shell::with_url(&proxy.url());
    let script = "trap '' TERM; while [ ! -e go ]; do sleep 0.05; done";
    let mut held = shell.hold(&["--ttl", "9s", "--grace", "60s"], "a", script).await;
    proxy.set(Mode::SwallowReplies);
    eventually("it is lost", LIMIT, async || held.stderr().contains("was lost while")).await;
    proxy.set(Mode::Pass);
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(held.code().await, 76, "{}", held.stderr());
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 0);
}

/// C8: a reader of the messages that stands still keeps no command running after its lock is lost.
#[tokio::test]
async fn c08_a_loss_that_nobody_reads_ends_the_command() {
    let shell = Shell::of(&File::start());
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("a flag");
    while (&writer).write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("a flag");
    let script = "echo > holds; trap '' TERM; while :; do sleep 0.05; done";
    let options = ["-v", "run", "--ttl", "4s", "--grace", "1s", "a", "--", "sh", "-c", script];
    let mut held = shell.leasehold(&options).stderr(writer).spawn().expect("it starts");
    shell.appears("holds").await;
    assert_eq!(shell.run(&["release", "--force", "a"]).await.code, 0);
    let ended = timeout(LIMIT, held.wait()).await.expect("it ends").expect("it is ours");
    assert_eq!(ended.code(), Some(76));
}
