//! A lock under load while its server is replaced: losses, reports, and tokens.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{FencingToken, LockClient, LockGuard, LockRequest, Wait};
use lock_testkit::eventually;
use tokio::task::JoinHandle;

use crate::support::{LIMIT, client};

const CLIENTS: usize = 3;

/// Clients that take one lock in turn, as often as they can.
pub(crate) struct Load {
    what: &'static str,
    seen: Arc<Observation>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Observation {
    is_over: AtomicBool,
    grants: Mutex<Vec<(Instant, FencingToken)>>,
    holders: AtomicU64,
    held_twice: AtomicU64,
    told_lost: AtomicU64,
    errors: AtomicU64,
    mark: Mutex<Option<Instant>>,
}

/// Result of a load.
#[derive(Debug)]
pub(crate) struct Row {
    what: &'static str,
    grants: usize,
    pub(crate) longest_pause: Duration,
    pub(crate) held_twice: u64,
    pub(crate) told_lost: u64,
    errors: u64,
    /// Number of tokens that were granted twice, or were not greater than an earlier one.
    pub(crate) repeated: usize,
    /// The last token before the mark.
    pub(crate) before: u64,
    /// The last token.
    pub(crate) after: u64,
}

impl Load {
    pub(crate) async fn start(what: &'static str, url: &str, name: &str) -> Self {
        let seen = Arc::new(Observation::default());
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let (client, seen, name) = (client(url).await, seen.clone(), name.to_owned());
            clients.push(tokio::spawn(async move { seen.take_turns(client, &name).await }));
        }
        Self { what, seen, clients }
    }

    /// Waits until `count` grants were made.
    pub(crate) async fn until_granted(&self, count: usize) {
        eventually("grants are made", LIMIT, async || self.seen.count() >= count).await;
    }

    /// Sets a mark, and returns the number of grants so far.
    pub(crate) fn mark(&self) -> usize {
        *self.seen.mark.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.seen.count()
    }

    pub(crate) async fn end(self) -> Row {
        self.seen.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("no panic");
        }
        let grants = self.seen.grants.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mark = self.seen.mark.lock().unwrap_or_else(PoisonError::into_inner).expect("a mark");
        let tokens: Vec<u64> = grants.iter().map(|(_, token)| token.get()).collect();
        let distinct: BTreeSet<u64> = tokens.iter().copied().collect();
        let before = grants.iter().filter(|(at, _)| *at < mark).map(|(_, token)| token.get());
        let pauses = grants.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Row {
            what: self.what,
            grants: grants.len(),
            longest_pause: pauses.max().unwrap_or_default(),
            held_twice: count(&self.seen.held_twice),
            told_lost: count(&self.seen.told_lost),
            errors: count(&self.seen.errors),
            repeated: tokens.len() - distinct.len(),
            before: before.max().unwrap_or_default(),
            after: distinct.last().copied().unwrap_or_default(),
        }
    }
}

impl Observation {
    async fn take_turns(&self, client: LockClient, name: &str) {
        while !self.is_over.load(Ordering::Relaxed) {
            let request = LockRequest::new(name).ttl(Duration::from_secs(5));
            match client.acquire(request.wait(Wait::AtMost(LIMIT))).await {
                Ok(guard) => self.hold(guard).await,
                Err(_) => drop(self.errors.fetch_add(1, Ordering::Relaxed)),
            }
        }
        client.shutdown().await;
    }

    async fn hold(&self, guard: LockGuard) {
        let granted = (Instant::now(), guard.token());
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).push(granted);
        if self.holders.fetch_add(1, Ordering::Relaxed) > 0 {
            self.held_twice.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.holders.fetch_sub(1, Ordering::Relaxed);
        if guard.release().await.is_err() {
            self.told_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Prints the results of several loads.
pub(crate) fn table(title: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "{title}\n| | grants | longest pause | held by two | told lost | errors | tokens given twice | last token before | last token after |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for row in rows {
        let Row { what, grants, held_twice, told_lost, errors, repeated, before, after, .. } = row;
        let pause = row.longest_pause.as_millis();
        let _ = writeln!(
            text,
            "| {what} | {grants} | {pause} ms | {held_twice} | {told_lost} | {errors} | {repeated} | {before} | {after} |"
        );
    }
    text
}
