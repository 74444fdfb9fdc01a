//! A session: one lease that carries many claims.
//!
//! ```text
//!         open                 keep_alive (again and again)
//!   new ───────▶ open, lasts until `confirmed + ttl` ───────────▶ …
//!                   │ the server does not know it     │ nobody uses it
//!                   ▼                                 ▼
//!                 gone: its keys are, too          revoked
//! ```

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, LeaseGrantOptions, LeaseTimeToLiveOptions, LeaseTimeToLiveResponse};
use futures_util::future::FutureExt;
use lock_core::{BackendError, Clock, Moment, SystemClock};
use parking_lot::Mutex;
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::sessions::in_flight::InFlight;
use crate::wire::error::{BACKEND, is_lease_gone, is_lease_there, lease_gone};
use crate::wire::server::Server;

/// Number of consecutive renewals within the TTL of a session: as many as for a hold (C12).
const KEEP_ALIVE_TRIES: u32 = 6;

/// One lease, and the time until which the server keeps it.
pub(crate) struct Session {
    server: Arc<Server>,
    id: i64,
    seconds: i64,
    /// The server's grant. It is set once the lease exists.
    granted: OnceCell<Duration>,
    state: Mutex<State>,
    keep_alive: InFlight<Result<(), BackendError>>,
}

struct State {
    /// The sending time of the request that last granted or renewed the lease.
    confirmed: Option<Moment>,
    is_gone: bool,
}

impl Session {
    /// Makes a session whose lease is granted when it is first needed.
    pub(crate) fn new(server: Arc<Server>, seconds: i64) -> Arc<Self> {
        // From the system: after a fork, a generator of our own would draw the same on both sides.
        let drawn = SysRng.try_next_u64().unwrap_or_else(|_| rand::random());
        Arc::new(Self {
            server,
            id: (drawn >> 1).max(1).cast_signed(),
            seconds,
            granted: OnceCell::new(),
            state: Mutex::new(State { confirmed: None, is_gone: false }),
            keep_alive: InFlight::default(),
        })
    }

    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Returns the requested TTL.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_secs(self.seconds.unsigned_abs())
    }

    /// Returns true if its lease was granted, and exists as far as we know.
    pub(crate) fn is_open(&self) -> bool {
        self.granted.initialized() && !self.is_gone()
    }

    /// Returns true if the server has ended the lease: no key can be written on it.
    pub(crate) fn is_gone(&self) -> bool {
        self.state.lock().is_gone
    }

    /// Returns the least time for which the server keeps the lease, counted from `now`.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        let confirmed = self.state.lock().confirmed;
        let granted = self.granted.get().copied().unwrap_or(self.ttl());
        confirmed.map_or(Duration::ZERO, |at| now.until(at.after(granted)))
    }

    /// Makes the lease last for at least `span` from now on, and returns its remaining time.
    pub(crate) async fn last_for(
        self: &Arc<Self>,
        span: Duration,
    ) -> Result<Duration, BackendError> {
        let now = SystemClock.now();
        self.granted.get_or_try_init(|| self.grant()).await?;
        if self.left(now) < span {
            self.keep_alive().await?;
        }
        Ok(self.left(now))
    }

    /// Asks for the lease. An earlier request whose answer was lost asked for the same id.
    async fn grant(self: &Arc<Self>) -> Result<Duration, BackendError> {
        let (id, seconds, asked) = (self.id, self.seconds, SystemClock.now());
        let options = LeaseGrantOptions::new().with_id(id);
        let grant = |mut client: Client| async move {
            match client.lease_grant(seconds, Some(options)).await {
                Err(error) if is_lease_there(&error) => Ok(None),
                granted => granted.map(Some),
            }
        };
        match self.server.request(grant).await? {
            Some(granted) => {
                self.confirm(asked);
                Ok(Duration::from_secs(granted.ttl().unsigned_abs()))
            }
            // C16: it was granted.
            None => self.keep_alive().await.map(|()| self.ttl()),
        }
    }

    /// Renews the lease for its TTL from now on: one request for any number of claims and callers (C12).
    pub(crate) async fn keep_alive(self: &Arc<Self>) -> Result<(), BackendError> {
        let session = self.clone();
        self.keep_alive.join(|| async move { session.send_keep_alive().await }.boxed()).await
    }

    async fn send_keep_alive(&self) -> Result<(), BackendError> {
        let (id, asked) = (self.id, SystemClock.now());
        let keep = self.server.request(|mut client| async move {
            match client.lease_keep_alive(id).await {
                Err(error) if is_lease_gone(&error) => Ok(false),
                kept => kept.map(|_| true),
            }
        });
        // C8: ends a silent request, even if others wait for it too, so that its connection is given up within the
        // TTL.
        let limit = self.ttl() / KEEP_ALIVE_TRIES;
        match timeout(limit, keep).await {
            Ok(Ok(true)) => {
                self.confirm(asked);
                Ok(())
            }
            Ok(Ok(false)) => {
                self.state.lock().is_gone = true;
                Err(lease_gone())
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(BackendError::no_answer(BACKEND, limit)),
        }
    }

    /// Returns the keys on the lease.
    ///
    /// A returned key exists. A missing key may exist too: the leader answers, and may not yet have applied a
    /// write that another member has applied.
    pub(crate) async fn census(&self) -> Result<LeaseTimeToLiveResponse, BackendError> {
        let (id, options) = (self.id, Some(LeaseTimeToLiveOptions::new().with_keys()));
        let ask = |mut client: Client| async move { client.lease_time_to_live(id, options).await };
        self.server.request(ask).await
    }

    /// Ends the lease, and with it all keys on it.
    pub(crate) async fn revoke(&self) -> Result<(), BackendError> {
        revoke(&self.server, self.id).await?;
        self.state.lock().is_gone = true;
        Ok(())
    }

    fn confirm(&self, asked: Moment) {
        let mut state = self.state.lock();
        // Answers may overtake each other.
        let is_later = state.confirmed.is_none_or(|confirmed| asked.has_reached(confirmed));
        state.confirmed = if is_later { Some(asked) } else { state.confirmed };
    }
}

/// Ends a lease, and with it all keys on it.
pub(crate) async fn revoke(server: &Server, id: i64) -> Result<(), BackendError> {
    let revoke = |mut client: Client| async move {
        match client.lease_revoke(id).await {
            Err(error) if !is_lease_gone(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    };
    server.request(revoke).await
}
