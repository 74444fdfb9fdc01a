//! The task that maintains the sessions of a client and the claims on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lock_core::{BackendError, Clock, Moment, SystemClock};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::protocol::requests;
use crate::protocol::view::entries;
use crate::sessions::claimed::Expired;
use crate::sessions::claims::Claims;
use crate::sessions::key_lease::Stage;
use crate::sessions::session::Session;
use crate::waiting::waiters::Waiters;
use crate::wire::server::Server;

/// Interval of the keeper's looks. An expiring claim lasts for this much longer.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Pause after a failed renewal of a session. A session is renewed after a third of its TTL.
const RENEW_AGAIN: Duration = Duration::from_millis(500);

/// Interval at which the keeper looks at all places of the client in queues (C28). With the time of a request, it is
/// within the second after which a waiter looks itself.
const POLL_EVERY: Duration = Duration::from_millis(800);

/// Longest time of a job, such as the renewal of a session. Another one is sent meanwhile.
const RENEW_LIMIT: Duration = Duration::from_secs(2);

/// Longest time of the deletion of an ended claim. Then it is sent again.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Time after which an unused session is ended.
const IDLE_LIMIT: Duration = Duration::from_secs(15);

/// Interval at which a client on another member checks if its preferred member answers again.
const COME_HOME_EVERY: Duration = Duration::from_secs(10);

/// Least interval at which the keys on a session are compared with the known claims: once in its TTL, but not more
/// often than this.
const CENSUS_EVERY: Duration = Duration::from_secs(10);

/// Longest time of the last revocations of a client that was dropped.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Renews the sessions of a client, ends the unused ones, and deletes the keys of claims in which nobody believes any
/// more.
///
/// It runs on the runtime that used the client last. Safety does not depend on it: each request for a grant or a
/// renewal makes sure that the session lasts.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    open: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    claims: Arc<Claims>,
    waiters: Arc<Waiters>,
}

/// Times of the last actions on a session.
struct Attended {
    renewed: Moment,
    counted: Moment,
    used: Moment,
}

impl Keeper {
    pub(crate) fn new(server: Arc<Server>, claims: Arc<Claims>, waiters: Arc<Waiters>) -> Self {
        let shared = Arc::new(Shared { server, claims, waiters });
        Self { shared, open: watch::Sender::new(true), task: Mutex::default() }
    }

    /// Starts the task, or starts it again if it or its runtime has ended.
    pub(crate) fn ensure_running(&self) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            *task = Some(runtime.spawn(self.shared.clone().run(self.open.subscribe())));
        }
    }

    /// Ends the sessions without a claim at once. A detached hold keeps its session, since it must last for its TTL.
    pub(crate) async fn close(&self) -> Result<(), BackendError> {
        self.shared.end_unused().await
    }
}

/// The task ends by itself, soon, after it has ended the sessions.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.open.send_replace(false);
    }
}

impl Shared {
    async fn run(self: Arc<Self>, mut open: watch::Receiver<bool>) {
        let (mut jobs, mut attended) = (FuturesUnordered::new(), HashMap::new());
        let mut polled = SystemClock.now();
        let mut came_home = polled;
        // This may be the second run: requests in flight of the first have no answer.
        self.claims.no_deletion_is_sent();
        while *open.borrow_and_update() && !self.claims.is_empty() {
            let now = SystemClock.now();
            jobs.extend(self.jobs(&mut attended, now));
            if now.since(polled) >= POLL_EVERY - LOOK_EVERY / 2 {
                polled = now;
                // So no waiter must look itself.
                let waiters = self.waiters.clone();
                jobs.push(job(async move { waiters.look().await }));
            }
            if now.since(came_home) >= COME_HOME_EVERY {
                came_home = now;
                let server = self.server.clone();
                jobs.push(job(async move { server.come_home().await }));
            }
            let look = sleep(LOOK_EVERY);
            tokio::pin!(look);
            loop {
                tokio::select! {
                    () = &mut look => break,
                    _ = open.changed() => break,
                    Some(()) = jobs.next() => {}
                }
            }
        }
        if !*open.borrow() {
            let _ = timeout(SHUTDOWN_GRACE, self.end_unused()).await;
        }
    }

    /// Returns the present jobs.
    fn jobs(
        self: &Arc<Self>,
        attended: &mut HashMap<i64, Attended>,
        now: Moment,
    ) -> Vec<BoxFuture<'static, ()>> {
        let mut jobs: Vec<BoxFuture<'static, ()>> = Vec::new();
        let expired = self.claims.expired(now).into_iter();
        jobs.extend(expired.map(|claim| self.clone().end(claim).boxed()));
        let sessions = self.claims.sessions();
        attended.retain(|id, _| sessions.iter().any(|(session, _)| session.id() == *id));
        for (session, is_needed) in sessions {
            let last = attended.entry(session.id()).or_insert_with(|| Attended::since(now));
            last.used = if is_needed { now } else { last.used };
            jobs.extend(self.attend(session, last, now));
        }
        let unsettled = self.claims.take_unsettled(&[Stage::Left]).into_iter();
        let server = &self.server;
        jobs.extend(unsettled.map(|lease| {
            let server = server.clone();
            job(async move { lease.end(&server).await })
        }));
        let is_idle = |last: &Attended| now.since(last.used) > IDLE_LIMIT;
        // Finding the used sessions costs a look at each claim.
        if attended.values().any(is_idle) || self.claims.has_unrenewed() {
            let idle = |session: &Session| attended.get(&session.id()).is_some_and(is_idle);
            let idle = self.claims.take_unused(idle).into_iter();
            jobs.extend(idle.map(|session| {
                let this = self.clone();
                job(async move { this.end_session(session).await })
            }));
        }
        jobs
    }

    /// Returns the present job for a session.
    fn attend(
        self: &Arc<Self>,
        session: Arc<Session>,
        last: &mut Attended,
        now: Moment,
    ) -> Vec<BoxFuture<'static, ()>> {
        let mut jobs: Vec<BoxFuture<'static, ()>> = Vec::new();
        if !session.is_open() {
            return jobs;
        }
        if now.since(last.counted) >= session.ttl().max(CENSUS_EVERY) {
            last.counted = now;
            jobs.push(self.clone().delete_orphans(session.clone()).boxed());
        }
        let is_due = session.left(now) <= session.ttl() / 3 * 2;
        if is_due && now.since(last.renewed) >= RENEW_AGAIN {
            last.renewed = now;
            jobs.push(job(async move { session.keep_alive().await }));
        }
        jobs
    }

    /// Ends a claim in which nobody believes any more: after `max_hold`, for a lease that nobody attached, or for a
    /// waiter that does not look. If its key has moved to the session of another client, it stays.
    async fn end(self: Arc<Self>, claim: Expired) {
        let Expired { asked, revision, sessions } = claim;
        let leases = sessions.iter().map(|session| session.id());
        let deletion = requests::delete_if_on(&asked.key, revision, leases);
        let ended = timeout(END_LIMIT, self.server.txn(deletion)).await;
        ended.iter().for_each(|answer| self.claims.answered(&asked, answer));
        match ended {
            Ok(Ok(_)) => self.claims.give_up(asked.owner),
            Ok(Err(_)) | Err(_) => self.claims.not_ended(&asked),
        }
    }

    /// Deletes the keys on a session that belong to none of our claims. They come from requests that arrived after
    /// their claim was over, and after the mark of its withdrawal was gone (C19).
    async fn delete_orphans(self: Arc<Self>, session: Arc<Session>) {
        let Ok(census) = session.census().await else { return };
        let orphans = self.claims.unknown(census.keys());
        join_all(orphans.into_iter().map(|key| self.delete_orphan(&session, key))).await;
    }

    /// Deletes a key as it was read. A later claim with the same key makes the key anew.
    async fn delete_orphan(&self, session: &Session, key: Vec<u8>) {
        let read = self.server.txn(requests::read([key])).await;
        let Ok(Some(Some(claim))) =
            read.and_then(|answer| entries(&answer)).map(|mut read| read.pop())
        else {
            return;
        };
        let is_unknown = !self.claims.unknown([&claim.key]).is_empty();
        if is_unknown && claim.lease == session.id() {
            let _ = self.server.txn(requests::delete(&claim)).await;
        }
    }

    async fn end_unused(&self) -> Result<(), BackendError> {
        let unused = self.claims.take_unused(|_| true);
        let sessions = join_all(unused.into_iter().map(|session| self.end_session(session)));
        // R1: the keeper's own ending of a lease may come too late.
        let unsettled = self.claims.take_unsettled(&[Stage::Left, Stage::Ending]).into_iter();
        let leases = join_all(unsettled.map(|lease| lease.end(&self.server)));
        let (sessions, leases) = join(sessions, leases).await;
        sessions.into_iter().chain(leases).collect()
    }

    /// Ends a session that was removed. After a failure it is tried again.
    async fn end_session(&self, session: Arc<Session>) -> Result<(), BackendError> {
        let ended = session.revoke().await;
        if ended.is_err() {
            self.claims.put_back(session);
        }
        ended
    }
}

/// Bounds a job. After a failure the next look tries again.
fn job<T: 'static>(job: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, ()> {
    timeout(RENEW_LIMIT, job).map(drop).boxed()
}

impl Attended {
    fn since(now: Moment) -> Self {
        Self { renewed: now, counted: now, used: now }
    }
}
