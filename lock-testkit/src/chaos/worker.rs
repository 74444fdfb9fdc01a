//! A client that acquires, uses and gives up locks in every way, and notes all events.

use std::collections::HashMap;
use std::env;
use std::fmt::Debug;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{ClientOptions, DistributedLock, LockClient, LockError};
use tokio::sync::watch;
use tokio::time::sleep;

use super::clock::{MILLI, now};
use super::journal::Journal;
use super::note::Event;
use super::register::Register;
use super::rng::Rng;
use super::store::Store;

/// The request time-out of the workers.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of tasks of a worker that share its client.
const TASKS: u64 = 4;

/// The locks that each protect a register.
pub(super) const REGISTERS: [&str; 2] = ["register-a", "register-b"];
/// The lock of readers and writers.
pub(super) const SHARED: &str = "shared";
/// The lock of three permits.
pub(super) const PERMITS: &str = "permits";
pub(super) const ELECTION: &str = "election";
pub(super) const ONCE: &str = "once";

/// All locks of a run.
pub(super) const NAMES: [&str; 6] = [REGISTERS[0], REGISTERS[1], SHARED, PERMITS, ELECTION, ONCE];

/// Orders to a worker.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) who: String,
    pub(super) url: String,
    pub(super) folder: PathBuf,
    pub(super) seed: u64,
    pub(super) is_reckless: bool,
}

impl Task {
    /// Returns the orders as variables of a process.
    pub(super) fn to_environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CHAOS_WHO", self.who.clone()),
            ("CHAOS_URL", self.url.clone()),
            ("CHAOS_FOLDER", self.folder.display().to_string()),
            ("CHAOS_SEED", self.seed.to_string()),
            ("CHAOS_RECKLESS", self.is_reckless.to_string()),
        ]
    }

    pub(super) fn of_environment() -> Self {
        Self {
            who: variable("CHAOS_WHO"),
            url: variable("CHAOS_URL"),
            folder: variable("CHAOS_FOLDER"),
            seed: variable("CHAOS_SEED"),
            is_reckless: variable("CHAOS_RECKLESS"),
        }
    }
}

fn variable<T: FromStr<Err: Debug>>(name: &str) -> T {
    let said = env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    said.parse().expect("it is well formed")
}

pub(super) struct Worker {
    pub(super) locks: LockClient,
    pub(super) journal: Arc<Journal>,
    pub(super) registers: HashMap<String, Arc<dyn Register>>,
    pub(super) ttl: Duration,
    pub(super) is_reckless: bool,
}

/// Works until `stopped` is true, and gives everything back.
pub(super) async fn work<S: Store>(task: Task, stopped: watch::Receiver<bool>) {
    let worker = Worker::open::<S>(&task).await;
    worker.work(task.seed, stopped).await;
    worker.locks.shutdown().await;
}

/// Returns a client with the options of the workers.
pub(super) fn client(locks: Arc<dyn DistributedLock>) -> LockClient {
    LockClient::from_arc(locks, ClientOptions::new().request_timeout(REQUEST_TIMEOUT))
}

/// Tries again until it succeeds: the network may be down at first.
async fn persistently<T, F>(attempt: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, LockError>>,
{
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Notes the stalls of the process or the machine: time bounds do not apply to them.
pub(super) fn note_stalls(journal: &Arc<Journal>) {
    const NAP: Duration = Duration::from_millis(10);
    let journal = Arc::downgrade(journal);
    thread::spawn(move || {
        loop {
            let asleep = now();
            thread::sleep(NAP);
            let Some(journal) = journal.upgrade() else { return };
            if now() - asleep > 50 * MILLI {
                journal.note(Event::Stalled { from: asleep });
            }
        }
    });
}

impl Worker {
    /// Connects, however long that takes.
    pub(super) async fn open<S: Store>(task: &Task) -> Arc<Self> {
        let journal = Arc::new(Journal::open(&task.folder, &task.who));
        note_stalls(&journal);
        let locks = client(persistently(|| S::connect(&task.url)).await);
        let mut registers = HashMap::new();
        for name in REGISTERS {
            let register = persistently(|| S::register(&task.url, &task.folder, name)).await;
            registers.insert(name.to_owned(), register);
        }
        let (ttl, is_reckless) = (S::TTL, task.is_reckless);
        Arc::new(Self { locks, journal, registers, ttl, is_reckless })
    }

    /// Works until `stopped` is true, and ends each hold.
    pub(super) async fn work(self: &Arc<Self>, seed: u64, stopped: watch::Receiver<bool>) {
        let tasks = (0..TASKS).map(|number| {
            let (worker, rng, stopped) = (self.clone(), Rng::new(seed, number), stopped.clone());
            tokio::spawn(async move { worker.repeat(rng, stopped).await })
        });
        join_all(tasks).await.into_iter().for_each(|ended| ended.expect("no panic"));
    }

    async fn repeat(&self, mut rng: Rng, stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            self.turn(&mut rng).await;
            sleep(rng.span(Duration::ZERO, Duration::from_millis(5))).await;
        }
    }
}
