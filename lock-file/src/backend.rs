//! The backend: file operations behind the trait.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_core::backend::{
    Attempt, Claim, Extension, Notifications, Record, Recording, RecordsRuns, Release, Renewal,
    Reservation, Reserved, ReservesTokens, WaiterHandle,
};
use lock_core::{
    BackendError, Capabilities, DistributedLock, Finding, Holder, Kinds, LockAdmin, LockError,
    LockName, LockRequest, LockState, Occurrence, Order, OwnerId, RecordedRun, Renewals,
    TokenDurability, Wakeup, Whom,
};
use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::timeout;
use uuid::Uuid;

use crate::blocking::{blocking, in_background, on_own_thread};
use crate::directory::{Directory, Queueing};
use crate::fault::BACKEND;
use crate::listener::{Listener, refused};
use crate::locked_file::LockTimeout;
use crate::machine::Machine;
use crate::path::FileSystem;

/// The lock that the doctor acquires.
const PROBE: &str = "leasehold-doctor";

/// Number of releases for one sweep.
const RELEASES_A_SWEEP: u64 = 1024;

/// Least time between the starts of two sweeps of a client: a sweep reads the names of all files.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Longest wait of a shutdown for the end of a sweep. A command ends right after its release.
const SWEEP_AT_THE_END: Duration = Duration::from_millis(500);

/// Locks in a directory, for the processes of one machine.
///
/// Clones share everything and are cheap. Any number of processes, and any number of `FileBackend`s of one process,
/// may open the same directory: they exclude each other.
///
/// # Guarantees
/// - A process that dies at any instruction leaves the lock as it was before or after its change,
///   and its hold ends with the TTL.
/// - Deadlines are on the clock that counts suspend and that nobody can set
///   (`CLOCK_BOOTTIME`). A reboot ends every hold.
/// - Tokens grow through expiry, release, crashes and reboots; and through the loss of the files
///   too, unless the wall clock is then behind the last token.
/// - A process that is stopped (`SIGSTOP`) or swapped out for its TTL loses its locks, as a dead one does. It may be
///   stopped inside a critical section, which takes some tens of microseconds. Then the operations of others on that
///   one lock fail after a quarter of a second with a transient [`BackendError`], and change nothing, until the
///   process continues or dies.
///
/// - Waiters are served first come, first served. The next one gets a datagram. A dead waiter is skipped at once, and
///   a waiter that hangs delays the others by at most three seconds. In a Tokio runtime without I/O no datagram is
///   received: waiters keep their order, and poll each second.
///
/// The documentation of the crate lists the assumptions about the directory.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = tempfile::tempdir()?;
/// # let directory = home.path().join("locks");
/// use std::time::Duration;
/// use lock_core::{LockClient, LockRequest, Wait};
/// use lock_file::FileBackend;
///
/// let locks = LockClient::new(FileBackend::open(&directory)?);
/// let request = LockRequest::new("stock:42")
///     .ttl(Duration::from_secs(10))
///     .wait(Wait::AtMost(Duration::from_secs(2)));
/// let guard = locks.acquire(request).await?;
/// guard.run(async { println!("selling under token {}", guard.token()) }).await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FileBackend {
    directory: Arc<Directory>,
    /// Receives the grants of this process and of others.
    notifications: Arc<Notifications<Listener>>,
    /// The last sweep that began.
    sweep: Arc<Mutex<Option<Sweep>>>,
}

/// A sweep that has begun.
#[derive(Debug)]
struct Sweep {
    began: Instant,
    ended: oneshot::Receiver<()>,
}

impl Sweep {
    /// Returns true if another sweep may begin, in place of this one: its end is told once.
    fn is_past(&mut self) -> bool {
        self.began.elapsed() >= SWEEP_EVERY && self.ended.try_recv() != Err(TryRecvError::Empty)
    }
}

impl FileBackend {
    /// Opens a directory of locks. Creates it, for this user alone, if it is missing.
    ///
    /// It checks the file system before it returns, which takes well under a millisecond on a local disk.
    ///
    /// # Errors
    /// - [`LockError::Backend`], which names the path, if the directory cannot be created, read or written, for lack
    ///   of rights or of a mount. Also if it is a symbolic link, belongs to another user, or others may write it. No
    ///   lock was changed.
    /// - [`LockError::Config`] if its file system is not known to be local ([`FileOptions`](crate::FileOptions)), if
    ///   the time namespace of this process is unknown, or if this is not Linux.
    ///
    /// ```
    /// use lock_core::LockError;
    /// use lock_file::FileBackend;
    ///
    /// let refused = FileBackend::open("/dev/null/locks");
    /// assert!(matches!(refused, Err(LockError::Backend { .. })));
    /// ```
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, LockError> {
        Self::on(Machine::this()?, dir.as_ref(), FileSystem::default())
    }

    pub(crate) fn on(
        machine: Machine,
        dir: &Path,
        file_system: FileSystem,
    ) -> Result<Self, LockError> {
        let directory = Arc::new(Directory::open(dir, machine, file_system)?);
        let listener = Listener::new(directory.sockets().clone());
        let notifications = Arc::new(Notifications::new(listener));
        Ok(Self { directory, notifications, sweep: Arc::default() })
    }

    /// Acquires a lock, waits for it, and gives it back, as clients do.
    async fn tried(&self, name: &str) -> Finding {
        let request = LockRequest::new(name).ttl(Duration::from_secs(1));
        let (Ok(holder), Ok(waiter)) = (request.claim(), request.claim()) else {
            return Finding::unknown("writes", "the prefix is too long for a probe", "shorten it");
        };
        let tried = async {
            self.try_once(&holder, Queueing::No).await?;
            let sockets = self.directory.sockets().clone();
            blocking(move |_| sockets.bind().map_err(refused)).await?;
            self.try_once(&waiter, Queueing::Polling).await?;
            self.withdraw(&waiter.name, &[waiter.owner]).await?;
            self.release(&holder.name, holder.owner).await
        };
        match tried.await {
            Ok(_) => Finding::good("writes", "a lock is taken, waited for and given back"),
            Err(error) => Finding::risk(
                "writes",
                error.to_string(),
                "correct the cause that the system names",
            ),
        }
    }

    /// Removes the files of some unused locks on a thread of its own, after one of many releases.
    fn sweep_sometimes(&self) {
        let (dice, _) = Uuid::new_v4().as_u64_pair();
        let mut last = self.sweep.lock();
        if dice.is_multiple_of(RELEASES_A_SWEEP) && last.as_mut().is_none_or(Sweep::is_past) {
            let directory = self.directory.clone();
            let ended = in_background(move || directory.sweep((dice >> 60) as u32));
            *last = ended.map(|ended| Sweep { began: Instant::now(), ended });
        }
    }

    pub(crate) async fn try_once(
        &self,
        claim: &Claim,
        queueing: Queueing,
    ) -> Result<Attempt, BackendError> {
        let (directory, claim) = (self.directory.clone(), claim.clone());
        blocking(move |caller| directory.try_acquire(&claim, queueing, caller)).await
    }
}

/// Every method works on a blocking thread of Tokio, never on the caller's thread. Renewals have their own thread,
/// since an application may use all of Tokio's blocking threads for longer than a TTL.
#[async_trait]
impl DistributedLock for FileBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(
            BACKEND,
            Order::Fifo,
            Wakeup::Push,
            Renewals::Batched,
            TokenDurability::CounterAndClock,
            Duration::from_nanos(1),
            "a reboot ends every lock, and its holders with it; if files are deleted or restored \
             from a backup while locks are held, a second holder may be granted while the first \
             still believes, with a greater token unless the clock is behind",
        )
        .with_kinds(Kinds::Permits)
    }

    async fn acquire(
        &self,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let hears = |waiter| self.notifications.register(claim.owner, waiter);
        let socket = waiter.and_then(hears);
        let queueing = socket.map_or(Queueing::No, Queueing::Listening);
        let mut attempt = self.try_once(claim, queueing).await?;
        if let (Attempt::Busy(_), Some(waiter), None) = (&attempt, waiter, socket) {
            // C28: listens before it queues, so that it misses no grant. A waiter that cannot listen polls.
            self.notifications.open().await?;
            let queueing = hears(waiter).map_or(Queueing::Polling, Queueing::Listening);
            attempt = self.try_once(claim, queueing).await?;
        }
        if let Attempt::Granted(_) = attempt {
            self.notifications.unregister(claim.owner);
        }
        Ok(attempt)
    }

    async fn extend(&self, renewals: &[Renewal]) -> Vec<Result<Extension, BackendError>> {
        let (directory, batch) = (self.directory.clone(), renewals.to_vec());
        let answers = on_own_thread(move |caller| {
            let timeout = LockTimeout::new();
            // Checked before each renewal: on a slow disk, a batch whose caller has left would delay the later
            // batches.
            let extend = |renewal| {
                caller.check()?;
                directory.extend(renewal, timeout)
            };
            Ok::<_, BackendError>(batch.iter().map(extend).collect())
        });
        match answers.await {
            Ok(answers) => answers,
            Err(stopped) => renewals.iter().map(|_| Err(stopped.clone())).collect(),
        }
    }

    async fn release(&self, name: &LockName, owner: OwnerId) -> Result<Release, BackendError> {
        let (directory, name) = (self.directory.clone(), name.clone());
        let released = blocking(move |_| directory.release(&name, owner)).await;
        self.sweep_sometimes();
        released
    }

    async fn withdraw(&self, name: &LockName, owners: &[OwnerId]) -> Result<(), BackendError> {
        owners.iter().for_each(|owner| self.notifications.unregister(*owner));
        let (directory, name, owners) = (self.directory.clone(), name.clone(), owners.to_vec());
        blocking(move |_| directory.withdraw(&name, &owners)).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        let sweep = self.sweep.lock().take();
        if let Some(sweep) = sweep {
            // A sweep that takes longer goes on as long as the process lives.
            let _ = timeout(SWEEP_AT_THE_END, sweep.ended).await;
        }
        Ok(())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        Some(self)
    }

    fn token_ranges(&self) -> Option<&dyn ReservesTokens> {
        Some(self)
    }

    fn run_records(&self) -> Option<&dyn RecordsRuns> {
        Some(self)
    }
}

#[async_trait]
impl ReservesTokens for FileBackend {
    async fn release_or_reserve(&self, hold: &Reservation) -> Result<Reserved, BackendError> {
        let (directory, hold) = (self.directory.clone(), hold.clone());
        blocking(move |_| directory.release_or_reserve(&hold)).await
    }
}

#[async_trait]
impl RecordsRuns for FileBackend {
    async fn record(&self, record: &Record) -> Result<Recording, BackendError> {
        let (directory, record) = (self.directory.clone(), record.clone());
        blocking(move |caller| directory.record(&record, caller)).await
    }

    async fn runs(
        &self,
        name: &LockName,
        of: Option<&Occurrence>,
    ) -> Result<Vec<RecordedRun>, BackendError> {
        let (directory, name, of) = (self.directory.clone(), name.clone(), of.cloned());
        blocking(move |_| directory.runs(&name, of.as_ref())).await
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Result<bool, BackendError> {
        let (directory, name, occurrence) =
            (self.directory.clone(), name.clone(), occurrence.clone());
        blocking(move |_| directory.forget(&name, &occurrence)).await
    }
}

#[async_trait]
impl LockAdmin for FileBackend {
    async fn inspect(&self, name: &LockName) -> Result<LockState, BackendError> {
        let (directory, name) = (self.directory.clone(), name.clone());
        blocking(move |_| directory.inspect(&name)).await
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<LockState>, BackendError> {
        let (directory, prefix) = (self.directory.clone(), prefix.to_owned());
        blocking(move |_| directory.list(&prefix, limit)).await
    }

    async fn evict(&self, name: &LockName, whom: &Whom) -> Result<Vec<Holder>, BackendError> {
        let (directory, name, whom) = (self.directory.clone(), name.clone(), whom.clone());
        blocking(move |_| directory.evict(&name, &whom)).await
    }

    async fn doctor(&self, prefix: &str) -> Result<Vec<Finding>, BackendError> {
        let directory = self.directory.clone();
        let mut findings = blocking(move |_| Ok::<_, BackendError>(directory.doctor())).await?;
        findings.push(self.tried(&format!("{prefix}{PROBE}")).await);
        Ok(findings)
    }
}

#[cfg(test)]
mod tests;
