//! One leader among many candidates (C40): a lock, in the words of elections.

use std::time::Duration;

use super::observer::{Leader, Observer};
use crate::client::LockClient;
use crate::engine::{Acquisition, LostSignal};
use crate::guard::LockGuard;
use crate::model::{
    Claim, Contention, FencingToken, Listener, LockError, LockName, LockRequest, LostReason,
    OwnerId, Wait,
};

impl LockClient {
    /// Returns the election of this name: the candidate that holds the lock of this name leads (C40).
    ///
    /// Nothing is sent, and nothing is checked, before the election is used.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{LockClient, MemoryBackend};
    /// # let locks = LockClient::new(MemoryBackend::new());
    /// let election = locks.election("indexer").label("host-7");
    /// let leadership = election.campaign().await?;
    /// let leader = election.leader().await?.expect("somebody leads");
    /// assert_eq!((leader.label.as_str(), leader.term), ("host-7", leadership.term()));
    /// leadership.run(async { println!("indexing in term {}", leader.term) }).await?;
    /// leadership.resign().await?;
    /// # Ok(()) }
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        let (client, request) = (self.clone(), LockRequest::new(name));
        Election { client, request, on_outage: Listener::default() }
    }
}

/// The election of a leader, by [`LockClient::election`]. It is built on a lock alone, and is as safe as the lock.
///
/// **A leader may believe that it leads when its term is over**: a leader that was paused, or whose clock runs slow,
/// learns of its end late. Two may act as leaders at the same time. Therefore send the [term](Leadership::term) with
/// each write, and let the resource refuse smaller ones (see [`Fence`](crate::Fence)).
///
/// A leader whose work needs time to stop must stop believing earlier: set a [margin](crate::ClientOptions::drift).
/// The margin is subtracted from each TTL, so the leader's belief ends by this margin before another can lead.
///
/// When a leader dies, the next candidate leads after the TTL at the latest. A leader that
/// [resigns](Leadership::resign) hands over at once. A candidate that is elected while its process is stopped costs
/// the next one a TTL at the most. Candidates are elected first come, first served where the backend's
/// [`Capabilities`](crate::Capabilities) say so.
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until it is used"]
pub struct Election {
    client: LockClient,
    request: LockRequest,
    on_outage: Listener<LockError>,
}

impl Election {
    /// Sets the wait of the candidate; default as for any [request](LockRequest::wait).
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        Self { request: self.request.wait(wait), ..self }
    }

    /// Sets the TTL of a leader; default as for any [request](LockRequest::ttl).
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { request: self.request.ttl(ttl), ..self }
    }

    /// Sets the candidate's label for observers, such as the name of this host; default as for any
    /// [request](LockRequest::label).
    pub fn label(self, label: impl AsRef<str>) -> Self {
        Self { request: self.request.label(label), ..self }
    }

    /// Calls `listener` while the candidate waits, as for any [request](LockRequest::on_wait).
    pub fn on_wait(self, listener: impl Fn(&Contention) + Send + Sync + 'static) -> Self {
        Self { request: self.request.on_wait(listener), ..self }
    }

    /// Calls `listener` during an outage in an endless campaign: each time that the server has not answered for five
    /// request time-outs. It must not block.
    pub fn on_outage(self, listener: impl Fn(&LockError) + Send + Sync + 'static) -> Self {
        Self { on_outage: Listener::new(listener), ..self }
    }

    /// Stops renewing after `span`, as for any [request](LockRequest::max_hold).
    pub fn max_hold(self, span: Duration) -> Self {
        Self { request: self.request.max_hold(span), ..self }
    }

    /// Waits to be elected.
    ///
    /// Each term is its own grant of the server, also among candidates of one client, so that all observers see each
    /// leader. Two campaigns of one program are two candidates: a program that leads and campaigns again waits for
    /// itself.
    ///
    /// **An endless campaign goes on through an outage**, however long, and takes a new place in the queue after it.
    /// [`on_outage`](Self::on_outage) and a warning of `tracing` report the outage. A campaign with a bounded
    /// [`wait`](Self::wait) ends with an outage.
    ///
    /// # Errors
    /// As [`LockClient::acquire`]. An endless campaign returns only errors that are not
    /// [transient](LockError::is_transient).
    ///
    /// # Cancel safety
    /// As [`LockClient::acquire`]: a candidate that gives up does not lead, and leaves the queue.
    pub async fn campaign(&self) -> Result<Leadership, LockError> {
        let request = self.client.complete(self.request.clone());
        let is_endless = request.wait_policy() == Wait::Forever;
        loop {
            match self.stand(&request).await {
                // An endless wait has lasted five request time-outs by then, so this is no busy loop.
                Err(error) if is_endless && error.is_transient() => {
                    tracing::warn!(%error, "still a candidate");
                    self.on_outage.tell(&error);
                }
                ended => return ended,
            }
        }
    }

    /// Waits to be elected, for as long as an acquisition lasts through an outage.
    async fn stand(&self, request: &LockRequest) -> Result<Leadership, LockError> {
        let shared = &self.client.shared;
        let claim = Claim { owner: OwnerId::of_candidate(), ..request.claim()? };
        let acquisition = Acquisition::new(shared.clone(), claim)?;
        let mut acquisition = acquisition.granted_by_server();
        let granted = acquisition.run(request).await?;
        Ok(Leadership { guard: LockGuard::new(shared.clone(), acquisition.acquired(granted)) })
    }

    /// Returns the present leader; `None` if nobody leads.
    ///
    /// A leader is a candidate that was elected. A program that [acquires](LockClient::acquire) the lock of this
    /// name, in any kind, keeps all candidates out and is no leader; [`inspect`](crate::Admin::inspect) shows it. So
    /// give an election a name that no other lock has.
    ///
    /// # Errors
    /// As [`inspect`](crate::Admin::inspect).
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn leader(&self) -> Result<Option<Leader>, LockError> {
        self.client.admin().inspect(self.request.name()).await.map(Leader::of)
    }

    /// Returns a stream of leaders: the present one at once, then each change.
    pub fn observe(&self) -> Observer {
        Observer::new(self.client.admin().watch(self.request.name()))
    }
}

/// The leadership of one term. It is renewed while this value lives. It is a [`LockGuard`] in the words of elections.
///
/// # Drop
/// Dropping it resigns **soon, not at once**, as dropping a guard does. Await [`resign`](Self::resign) to know that
/// the next candidate may lead.
#[derive(Debug)]
#[must_use = "a leadership that is not kept ends at once: bind it to a name, and not to `_`"]
pub struct Leadership {
    guard: LockGuard,
}

impl Leadership {
    /// The election.
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

    /// Returns the term: greater than those of all leaders before. Send it with each write.
    pub fn term(&self) -> FencingToken {
        self.guard.token()
    }

    /// Returns true while this candidate leads, by the clock: see [`LockGuard::is_held`].
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time until the leader must stop believing. A renewal extends it.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Waits until the leadership is lost, and returns the reason.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> LostReason {
        self.guard.lost().await
    }

    /// Returns a signal of the loss for other tasks.
    pub fn lost_signal(&self) -> LostSignal {
        self.guard.lost_signal()
    }

    /// Runs `work` as the leader, and drops it if the leadership is lost: see [`LockGuard::run`].
    ///
    /// # Errors
    /// [`LockError::Lost`] if the leadership was lost before `work` ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`; the leadership goes on.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockError> {
        self.guard.run(work).await
    }

    /// Ends the leadership, and lets the next candidate lead at once.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the leadership was over before: another may have led meanwhile. See
    /// [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// If the future is dropped, this resigns in the background.
    pub async fn resign(self) -> Result<(), LockError> {
        self.guard.release().await
    }

    /// Returns the guard of the lock, for everything that a lock can do.
    pub fn into_guard(self) -> LockGuard {
        self.guard
    }
}
