//! Processes that wait for one lock: their order, and the cost of waiters that are killed, stopped, or sent wrong
//! messages.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lock_core::backend::{FALLBACK_POLL, UNCLAIMED_GRANT_TTL};
use lock_core::{LockClient, LockGuard, LockRequest, OwnerId, Wait};
use lock_file::FileBackend;
use lock_testkit::child::{self, Child};
use lock_testkit::eventually;
use tempfile::TempDir;

/// Time that a loaded machine may add to a bound of the contract.
const SLACK: Duration = Duration::from_secs(2);

/// A time limit for waits that have none of their own.
const LIMIT: Duration = Duration::from_secs(30);

const HOME: &str = "LOCK_FILE_TEST_QUEUE";
const LABEL: &str = "LOCK_FILE_TEST_LABEL";

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "waiter" => wait().await,
        other => panic!("no such role: {other}"),
    });
}

/// Reports that it waits, and that it holds; releases on command, and reports the end.
async fn wait() {
    let variable = |name| std::env::var(name).expect("is set");
    let locks = LockClient::new(FileBackend::open(variable(HOME)).expect("opens"));
    let told = std::sync::atomic::AtomicBool::new(false);
    let request = request(&variable(LABEL)).on_wait(move |seen| {
        if seen.position.is_some() && !told.swap(true, std::sync::atomic::Ordering::Relaxed) {
            child::say("waits");
        }
    });
    let guard = locks.acquire(request).await.expect("its turn comes");
    child::say("holds");
    child::hear().await;
    child::say(if guard.release().await.is_ok() { "released" } else { "lost" });
    locks.shutdown().await;
}

fn request(label: &str) -> LockRequest {
    LockRequest::new("a").ttl(LIMIT).label(label).wait(Wait::Forever)
}

/// A lock that the test holds, and processes that queue for it.
struct Queue {
    home: TempDir,
    locks: LockClient,
    held: Option<LockGuard>,
    waiters: Vec<Child>,
}

impl Queue {
    async fn of(labels: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let locks = LockClient::new(FileBackend::open(home.path()).expect("opens"));
        let held = Some(locks.acquire(request("holder")).await.expect("free"));
        let mut waiters = Vec::new();
        for label in labels {
            let path = home.path().display().to_string();
            let mut waiter = child::spawn("waiter", &[(HOME, &*path), (LABEL, label)]);
            assert_eq!(waiter.line().await, "waits");
            waiters.push(waiter);
        }
        Self { home, locks, held, waiters }
    }

    async fn release(&mut self) {
        self.held.take().expect("held").release().await.expect("held to the end");
    }

    async fn holder(&self) -> Option<String> {
        let holder = self.locks.admin().inspect("a").await.expect("an answer").holder().cloned();
        holder.map(|holder| holder.label.as_str().to_owned())
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.home.path().join("waiters")).expect("readable");
        folder.map(|socket| socket.expect("readable").path()).collect()
    }

    /// The first waiter holds, releases, and ends.
    async fn serve_first(&mut self) {
        let mut first = self.waiters.remove(0);
        assert_eq!(first.line().await, "holds");
        first.tell("release").await;
        assert_eq!(first.line().await, "released");
        assert!(first.ended().await.success());
    }
}

#[tokio::test]
async fn c27_processes_are_served_in_the_order_in_which_they_came() {
    let labels = ["0", "1", "2", "3", "4", "5"];
    let mut queue = Queue::of(&labels).await;
    assert_eq!(queue.locks.admin().inspect("a").await.expect("an answer").waiters, Some(6));
    queue.release().await;
    for label in labels {
        // C27: the release itself has granted the lock.
        assert_eq!(queue.holder().await.as_deref(), Some(label));
        queue.serve_first().await;
    }
    assert_eq!(queue.holder().await, None);
}

#[tokio::test]
async fn c28_killed_waiters_are_passed_over_by_the_release_itself() {
    let mut queue = Queue::of(&["killed first", "alive", "killed last"]).await;
    for killed in [2, 0] {
        queue.waiters.remove(killed).kill().await;
    }
    assert_eq!(queue.sockets().len(), 3, "a process that is killed leaves its socket");
    queue.release().await;
    assert_eq!(queue.holder().await.as_deref(), Some("alive"));
    queue.serve_first().await;
    // The next waiter is dead too, and it is the last: nobody holds, and nothing is left.
    assert_eq!(queue.holder().await, None);
    eventually("the sockets are gone", LIMIT, async || queue.sockets().is_empty()).await;
}

#[tokio::test]
async fn c28_a_stopped_waiter_costs_the_time_of_an_unclaimed_grant() {
    let mut queue = Queue::of(&["stopped", "next"]).await;
    queue.waiters[0].stop();
    let released = Instant::now();
    queue.release().await;
    assert_eq!(queue.holder().await.as_deref(), Some("stopped"));
    assert_eq!(queue.waiters[1].line().await, "holds");
    let (waited, bound) = (released.elapsed(), UNCLAIMED_GRANT_TTL + FALLBACK_POLL + SLACK);
    assert!(waited < bound, "{waited:?}");
    // S3: the stopped waiter does not believe in its grant, and waits again.
    queue.waiters[0].cont();
    eventually("it waits again", LIMIT, async || {
        queue.locks.admin().inspect("a").await.expect("an answer").waiters == Some(1)
    })
    .await;
    assert_eq!(queue.holder().await.as_deref(), Some("next"));
    queue.waiters[1].tell("release").await;
    assert_eq!(queue.waiters[1].line().await, "released");
    queue.serve_first().await;
}

/// Fills the buffer of a socket whose process does not read.
fn fill(socket: &PathBuf) {
    let junk = UnixDatagram::unbound().expect("a socket");
    junk.set_nonblocking(true).expect("set");
    for _ in 0..100_000 {
        if let Err(error) = junk.send_to(b"junk", socket) {
            return assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
    }
    panic!("the buffer has no end");
}

#[tokio::test]
async fn c28_a_datagram_that_is_lost_costs_a_poll() {
    let mut queue = Queue::of(&["deaf"]).await;
    queue.waiters[0].stop();
    fill(&queue.sockets()[0]);
    queue.release().await;
    assert_eq!(queue.holder().await.as_deref(), Some("deaf"));
    queue.waiters[0].cont();
    let told = Instant::now();
    assert_eq!(queue.waiters[0].line().await, "holds");
    assert!(told.elapsed() < FALLBACK_POLL + SLACK, "{:?}", told.elapsed());
    queue.waiters[0].tell("release").await;
    assert_eq!(queue.waiters[0].line().await, "released");
}

#[tokio::test]
async fn a_forged_datagram_grants_nothing() {
    let mut queue = Queue::of(&["waiter"]).await;
    let (socket, liar) = (queue.sockets().remove(0), UnixDatagram::unbound().expect("a socket"));
    let of_another = format!("{}:9007199254740991:30000:1", OwnerId::random().expose());
    let long = "0".repeat(10_000);
    let forged = ["", "granted", ":::", "0:1:2:3", &of_another, &long, "\0"];
    for message in forged.iter().map(|text| text.as_bytes()).chain([&b"\xff\xfe"[..]]) {
        liar.send_to(message, &socket).expect("sent");
    }
    let silence = tokio::time::timeout(2 * FALLBACK_POLL, queue.waiters[0].line()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert_eq!(queue.holder().await.as_deref(), Some("holder"));
    queue.release().await;
    queue.serve_first().await;
}

#[tokio::test]
async fn r01_nothing_is_left_of_waiters_that_ended() {
    let mut queue = Queue::of(&["1", "2"]).await;
    queue.release().await;
    for _ in 0..2 {
        queue.serve_first().await;
    }
    eventually("the sockets are gone", LIMIT, async || queue.sockets().is_empty()).await;
    let state = queue.locks.admin().inspect("a").await.expect("an answer");
    assert_eq!((state.holder().cloned(), state.waiters), (None, Some(0)));
}
