//! A server that is down when `leasehold` starts.

use std::time::{Duration, Instant};

use lock_testkit::eventually;
use rustix::process::Signal;

use crate::LIMIT;
use crate::shell::Shell;
use crate::store::{Redis, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c48_a_server_that_starts_later_is_waited_for() {
    let mut redis = Redis::start().await;
    let shell = Shell::of(&redis);
    redis.0.kill();
    for options in [&["run", "--no-wait"][..], &["run", "-w", "0s"], &["hold", "-n"], &["ps"]] {
        let rest: &[&str] = if options[0] == "run" { &["a", "--", "true"] } else { &[] };
        let name: &[&str] = if options[0] == "hold" { &["a"] } else { &[] };
        let output = shell.run(&[options, name, rest].concat()).await;
        assert_eq!(output.code, 69, "{options:?}: {}", output.stderr);
    }
    let started = Instant::now();
    let output = shell.run(&["run", "--wait", "1s", "a", "--", "true"]).await;
    assert_eq!(output.code, 69, "{}", output.stderr);
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());

    let mut waiter = shell.start(&["run", "--wait", "60s", "a", "--", "touch", "ran"]);
    let mut candidate = shell.start(&["elect", "b", "--", "sh", "-c", "echo > led; sleep 60"]);
    eventually("it is told", LIMIT, async || candidate.stderr().contains("still a candidate"))
        .await;
    // C40: a candidate reports an outage once a minute, and a wait in a log is told after ten seconds.
    let told = "for the server at redis://";
    eventually("the wait is told", LIMIT, async || waiter.stderr().contains(told)).await;
    assert_eq!(candidate.stderr().lines().count(), 1, "{}", candidate.stderr());
    redis.0.restart().await;
    assert_eq!(waiter.code().await, 0, "{}", waiter.stderr());
    shell.appears("ran").await;
    shell.appears("led").await;
    candidate.send(Signal::TERM);
    candidate.ended().await;
}

/// A wrong password stays wrong, so there is no retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_refusal_is_told_at_once() {
    let redis = Redis::start().await;
    redis.0.cli(&["CONFIG", "SET", "requirepass", "right"]);
    let url = redis.url().replace("://", "://:wrong@");
    let started = Instant::now();
    let output = Shell::with_url(&url).run(&["run", "--wait", "60s", "a", "--", "true"]).await;
    assert_eq!(output.code, 69, "{}", output.stderr);
    assert!(started.elapsed() < LIMIT / 6, "{:?}: {}", started.elapsed(), output.stderr);
    assert!(!output.stderr.contains("wrong@"), "{}", output.stderr);
}
