//! C39: several locks at once, all or none.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{TryFutureExt, join_all};
use tokio::time::Instant;

use super::multi_guard::{MultiGuard, first_loss, loss_of};
use crate::client::LockClient;
use crate::engine::Acquisition;
use crate::guard::LockGuard;
use crate::model::{
    Claim, Contention, InputKind, InvalidInput, LockError, LockName, LockRequest, LostReason, Wait,
};

/// Several locks that are acquired together, as the caller asks for them.
///
/// Names alone are a request: unset parts are as in a [`LockRequest`]. Each part applies to all of the locks: there
/// is one wait in all, and each lock has the same TTL and label.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{MultiRequest, Wait};
///
/// let request = MultiRequest::new(["account:7", "account:3"])
///     .ttl(Duration::from_secs(10))
///     .wait(Wait::AtMost(Duration::from_secs(2)))
///     .label("web-3");
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until a client acquires it"]
pub struct MultiRequest {
    names: Vec<String>,
    /// The request for each lock, without its name.
    each: LockRequest,
    /// Counted from the moment at which all locks are held.
    max_hold: Option<Duration>,
    listener: Option<Arc<Tell>>,
}

type Tell = dyn Fn(&LockName, &Contention) + Send + Sync;

impl MultiRequest {
    /// The most locks that are acquired together.
    pub const MAX_NAMES: usize = 512;

    /// Asks for the locks with these names, in any order. A repeated name counts once.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let names = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Self { names, each: LockRequest::new(""), max_hold: None, listener: None }
    }

    /// Sets the time for which the server keeps each unrenewed lease: see [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { each: self.each.ttl(ttl), ..self }
    }

    /// Sets the wait for all locks together: see [`LockRequest::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { each: self.each.wait(wait), ..self }
    }

    /// Asks for a shared hold of each lock, as a reader: see [`LockRequest::shared`].
    pub fn shared(self) -> Self {
        Self { each: self.each.shared(), ..self }
    }

    /// Asks for `taken` of the `of` permits of each lock: see [`LockRequest::permits`].
    pub fn permits(self, taken: u16, of: u16) -> Self {
        Self { each: self.each.permits(taken, of), ..self }
    }

    /// Sets the holder's label: see [`LockRequest::label`].
    pub fn label(self, label: impl AsRef<str>) -> Self {
        Self { each: self.each.label(label), ..self }
    }

    /// Stops renewing `span` after all locks were acquired: see [`LockRequest::max_hold`].
    pub fn max_hold(self, span: Duration) -> Self {
        Self { max_hold: Some(span), ..self }
    }

    /// Calls `listener` with each answer that a lock is busy, and its name: see [`LockRequest::on_wait`].
    pub fn on_wait(
        self,
        listener: impl Fn(&LockName, &Contention) + Send + Sync + 'static,
    ) -> Self {
        Self { listener: Some(Arc::new(listener)), ..self }
    }

    /// Returns a claim on each lock, in the order of acquisition.
    fn in_order(&self) -> Result<Vec<Claim>, LockError> {
        let names: Result<BTreeSet<LockName>, _> = self.names.iter().map(LockName::new).collect();
        // C39: the names are in the order of their bytes, whatever order the caller chose, and each occurs once.
        let names = names?;
        if names.is_empty() || names.len() > Self::MAX_NAMES {
            let (max, count) = (Self::MAX_NAMES, names.len());
            let text = format!("1 to {max} locks are acquired at once, and not {count}");
            return Err(InvalidInput::new(InputKind::NameCount, text).into());
        }
        names.iter().map(|name| self.each.for_name(name).claim()).collect()
    }

    fn for_name(&self, name: &LockName) -> LockRequest {
        let request = self.each.for_name(name);
        match self.listener.clone() {
            None => request,
            Some(listener) => {
                let name = name.clone();
                request.on_wait(move |seen| listener(&name, seen))
            }
        }
    }
}

impl<N: AsRef<str>, I: IntoIterator<Item = N>> From<I> for MultiRequest {
    fn from(names: I) -> Self {
        Self::new(names)
    }
}

impl fmt::Debug for MultiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiRequest")
            .field("names", &self.names)
            .field("each", &self.each)
            .field("max_hold", &self.max_hold)
            .finish_non_exhaustive()
    }
}

impl LockClient {
    /// Acquires several locks, all or none, and holds them under one guard.
    ///
    /// Takes the names, or a [`MultiRequest`] with a wait and a TTL. The locks are acquired in the order of the bytes
    /// of their names. So programs that acquire their locks in this way cannot wait for each other in a circle,
    /// whatever the order of their names is. Acquired locks are renewed during the wait for the next one.
    /// **A program that holds a lock and asks for others may wait in a circle**: ask for all at once.
    ///
    /// A request that waits acquires the first lock, and then asks for all others at once. It keeps the locks before
    /// the first busy one, releases the locks behind that one, and waits for the busy lock. A request that does not
    /// wait asks for one lock after the other, and ends at the first busy one. So of requests that overlap, are sent
    /// together and do not wait, at least one is granted.
    ///
    /// # How long it takes
    /// Takes as long as [`acquire`](Self::acquire), with one wait for all. If all locks are free, a request that waits takes two
    /// round trips, and a request that does not wait takes one for each lock, and at most one request time-out for
    /// each.
    ///
    /// # Errors
    /// No lock is held then: acquired locks are released in the background.
    ///
    /// - [`LockError::Invalid`] if there are no names, or more than [`MAX_NAMES`](MultiRequest::MAX_NAMES): nothing
    ///   was sent.
    /// - [`LockError::Lost`] if a lock was lost during the wait for the next ones.
    /// - An error of [`acquire`](Self::acquire), of the first lock that could not be acquired.
    ///
    /// # Cancel safety
    /// If the future is dropped, no lock is held: grants and places in queues are withdrawn in the background, as
    /// soon as the server answers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let guard = locks.acquire_all(["account:7", "account:3"]).await?;
    /// guard.run(async { println!("moving money") }).await?;
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire_all(
        &self,
        request: impl Into<MultiRequest>,
    ) -> Result<MultiGuard, LockError> {
        let request: MultiRequest = request.into();
        let request = MultiRequest { each: self.complete(request.each), ..request };
        // One wait in all for the locks.
        let (started, total) = (Instant::now(), request.each.wait_policy());
        let (left, patience) =
            (|| total.rest_since(started), self.shared.store.options.patience(total));
        let begin = |claim| Acquisition::new(self.shared.clone(), claim);
        let mut rest: VecDeque<_> =
            request.in_order()?.into_iter().map(begin).collect::<Result<_, _>>()?;
        let (mut guards, mut reach) = (Vec::new(), MultiRequest::MAX_NAMES);
        let (mut answered, mut seen) = (started, None);
        while let Some(mut next) = rest.pop_front() {
            let each = request.for_name(next.name()).wait(left());
            // On the heap, since it is larger than the rest.
            let granted = unless_lost(&guards, Box::pin(next.run(&each))).await;
            let granted = granted.map_err(|error| {
                // C48: the server has answered lately, or was silent for long.
                let is_silent = answered.elapsed() >= patience;
                let seen = seen.take().or_else(|| (!is_silent).then(Contention::unknown));
                error.after(started.elapsed()).or_seen(seen)
            })?;
            guards.push(LockGuard::new(self.shared.clone(), next.acquired(granted)));
            answered = Instant::now();
            if !total.waits() {
                // C39: holds none out of order, which could refuse a rival that refuses this request in turn.
                continue;
            }
            let asked = self.ask_at_once(&request, &mut rest, reach, left());
            let free = unless_lost(&guards, asked).await?;
            seen = free.busy;
            // The locks behind a busy one were acquired in vain: fewer are asked for next.
            reach = if free.are_all { reach * 2 } else { free.guards.len().max(1) };
            guards.extend(free.guards);
        }
        if let Some(span) = request.max_hold {
            guards.iter().for_each(|guard| guard.renew_for(span));
        }
        Ok(MultiGuard::new(guards))
    }

    /// Asks at once for the first `reach` locks of `rest`, without places in queues, and returns the locks before
    /// the first that is not granted. The locks behind that one are given back, since they would be held out of order during the
    /// wait for it (C39).
    async fn ask_at_once(
        &self,
        request: &MultiRequest,
        rest: &mut VecDeque<Acquisition>,
        reach: usize,
        wait: Wait,
    ) -> Result<FreeLocks, LockError> {
        // C26: earlier tasks of this client are not overtaken.
        let is_next = |each: &&Acquisition| !self.shared.local_queue.has_line(each.name());
        let count = rest.iter().take(reach).take_while(is_next).count();
        let guard = |acquired| LockGuard::new(self.shared.clone(), acquired);
        // C19: each grant has its guard at once, since the rest of them may be dropped.
        let ask = |each: Acquisition| each.ask_once(wait).map_ok(|asked| asked.map(guard));
        let asked = join_all(rest.drain(..count).map(ask)).await;
        let (mut guards, mut busy, mut behind) = (Vec::new(), None, Vec::new());
        for outcome in asked {
            match outcome? {
                Ok(guard) if behind.is_empty() => guards.push(guard),
                Ok(guard) => {
                    let claim = request.each.for_name(guard.name()).claim()?;
                    behind.push(Acquisition::new(self.shared.clone(), claim)?);
                }
                Err(refused) => {
                    let (acquisition, seen) = *refused;
                    busy = if behind.is_empty() { seen } else { busy };
                    behind.push(acquisition);
                }
            }
        }
        let are_all = behind.is_empty();
        behind.into_iter().rev().for_each(|each| rest.push_front(each));
        Ok(FreeLocks { guards, are_all, busy })
    }
}

/// Locks that were free when they were asked for at once.
struct FreeLocks {
    guards: Vec<LockGuard>,
    /// False if another lock was not granted.
    are_all: bool,
    /// Contention of the first lock that was not granted, if it is busy.
    busy: Option<Contention>,
}

/// Runs `work` until it ends, or until one of the held locks is lost.
async fn unless_lost<T>(
    held: &[LockGuard],
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    tokio::select! {
        biased;
        loss = first_loss(held) => Err(match loss {
            (name, LostReason::Shutdown) => LockError::Closed { name },
            loss => loss_of(held, loss),
        }),
        done = work => done,
    }
}
