//! A fork of a process that holds locks: it has no clients, and does no harm to those of the first process.

#![allow(clippy::expect_used, clippy::panic)]

use std::fmt::Debug;
use std::io::{Read, Write, pipe};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use leasehold::{Connector, LockError, LockRequest, LostReason, Reentrance, blocking};
use lock_testkit::process::signal;
use tokio::runtime::{Builder, Runtime};

/// Longest time of all calls in a fork, each of which is refused at once.
const LIMIT: Duration = Duration::from_secs(20);

/// A TTL that is over when the first process looks again.
const SHORT: Duration = Duration::from_secs(1);

/// Runs `work` in a fork of this process, and returns its lines.
fn in_fork(work: impl FnOnce() -> Vec<String>) -> Vec<String> {
    let (mut told, mut tell) = pipe().expect("a pipe");
    match fork().expect("a fork") {
        Fork::Child => {
            let lines = catch_unwind(AssertUnwindSafe(work));
            let lines = lines.unwrap_or_else(|_| vec!["a panic".to_owned()]);
            let _ = tell.write_all(lines.join("\n").as_bytes());
            // Its exit would run what belongs to the first process.
            signal::kill(std::process::id());
            unreachable!("it is killed");
        }
        Fork::Parent(pid) => {
            drop((tell, work));
            let (done, ended) = mpsc::channel();
            thread::spawn(move || {
                let mut text = String::new();
                let read = told.read_to_string(&mut text);
                let _ = done.send(read.map(|_| text));
            });
            let told = ended.recv_timeout(LIMIT);
            signal::kill(pid as u32);
            waitpid(pid).expect("a child");
            let text = told.expect("a call in a fork never returns").expect("a pipe");
            text.lines().map(str::to_owned).collect()
        }
    }
}

/// Asserts that each call was refused with an error that names the fork.
fn assert_refused(lines: &[String], calls: usize) {
    assert_eq!(lines.len(), calls, "{lines:#?}");
    for line in lines {
        assert!(line.contains("fork"), "{line}");
    }
}

fn refused<T: Debug>(call: &str, answer: Result<T, LockError>) -> String {
    match answer {
        Ok(answer) => format!("{call}: {answer:?}"),
        Err(error) => format!("{call}: {error}"),
    }
}

fn request(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(SHORT)
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// C20, S5: the hold of the first process is renewed and released by that process alone.
fn s5_a_fork_leaves_a_hold_to_the_first_process(url: &str) {
    let first = runtime();
    let (locks, guards, waits) = first.block_on(async {
        let locks = Connector::new().connect(url).await.expect("a connection");
        let mut guards = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            guards.push(locks.acquire(request(name)).await.expect("a free lock"));
        }
        let me = Reentrance::new();
        guards.push(locks.acquire(request("g").reentrant(&me)).await.expect("a free lock"));
        (locks, guards, me)
    });
    let (mut locks, mut guards) = (Some(locks), Some(guards));
    let lines = in_fork(|| {
        let (locks, guards) = (locks.take().expect("it"), guards.take().expect("them"));
        let second = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let lines = second.block_on(async move {
            let [a, b, c, d, e, f, g] = <[_; 7]>::try_from(guards).expect("seven");
            let held: Vec<_> = [&a, &g].iter().map(|guard| guard.is_held()).collect();
            let mut lines = vec![
                refused("acquire", locks.acquire("z").await),
                refused("try_acquire", locks.try_acquire("a").await),
                refused("reentrant", locks.acquire(request("g").reentrant(&waits)).await),
                refused("acquire_all", locks.acquire_all(["y", "z"]).await),
                refused("once", locks.once("z").occurrence("now").begin().await),
                refused("campaign", locks.election("z").campaign().await),
                refused("inspect", locks.admin().inspect("a").await),
                refused("list", locks.admin().list("", 9).await),
                refused("watch", locks.admin().watch("a").next().await),
                refused("extend", a.extend(SHORT * 60).await),
                refused("run", a.run(async {}).await),
                refused("release", a.release().await),
                refused("release_confirmed", b.release_confirmed().await),
                refused("detach", c.detach()),
                refused("record", d.record("now", SHORT).await),
                format!("lost: {}", e.lost().await),
            ];
            if held != [false, false] || e.lost_signal().reason() != Some(LostReason::Forked) {
                lines.push("held".to_owned());
            }
            drop((f, g));
            locks.shutdown().await;
            drop(locks);
            lines
        });
        forget(second);
        lines
    });
    assert_refused(&lines, 16);
    let (locks, guards) = (locks.expect("it"), guards.expect("them"));
    first.block_on(async {
        tokio::time::sleep(SHORT * 3 / 2).await;
        for guard in guards {
            let name = guard.name().to_string();
            guard.release().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        locks.acquire("a").await.expect("it was given back").release().await.expect("it was held");
    });
}

/// C20: the drop of a blocking client waits for its thread, which a fork has not got.
fn c20_a_fork_drops_a_blocking_client_without_a_wait(url: &str) {
    let locks = blocking::connect(url).expect("a connection");
    let (one, two) = (locks.acquire(request("a")), locks.acquire(request("b")));
    let (mut one, mut two) = (one.ok(), two.ok());
    let mut in_child = Some(locks.clone());
    let mut of_parent = Some(locks);
    let lines = in_fork(|| {
        let (locks, other) = (in_child.take().expect("it"), of_parent.take());
        let (one, two) = (one.take().expect("a free lock"), two.take());
        let lines = vec![
            refused("acquire", locks.acquire("z")),
            refused("try_acquire", locks.try_acquire("a").map(|guard| guard.is_some())),
            refused("list", locks.block_on(async |locks| locks.admin().list("", 9).await)),
            refused("watch", locks.block_on(async |locks| locks.admin().watch("a").next().await)),
            refused(
                "watch_list",
                locks.block_on(async |locks| locks.admin().watch_list("", 9).next().await),
            ),
            refused("extend", one.extend(SHORT * 60)),
            format!("lost: {:?}", one.lost(SHORT)).to_lowercase(),
            refused("release", one.release()),
        ];
        locks.shutdown();
        drop((two, other, locks));
        lines
    });
    assert_refused(&lines, 8);
    thread::sleep(SHORT * 3 / 2);
    for guard in [one, two] {
        guard.expect("a free lock").release().expect("the first process held it");
    }
}

macro_rules! on_each_store {
    ($($case:ident)*) => {$(
        mod $case {
            #[test]
            fn in_memory() {
                super::$case("memory:");
            }

            #[test]
            fn on_files() {
                let folder = tempfile::tempdir().expect("a folder");
                super::$case(&format!("file:{}", folder.path().join("locks").display()));
            }

            #[cfg(feature = "redis")]
            #[test]
            fn on_redis() {
                let runtime = super::runtime();
                let server = runtime.block_on(lock_testkit::RedisServer::start());
                super::$case(&server.url());
            }
        }
    )*};
}

on_each_store! {
    s5_a_fork_leaves_a_hold_to_the_first_process
    c20_a_fork_drops_a_blocking_client_without_a_wait
}
