//! The session that hears of the grants of this client.
//!
//! Its channel is named by a number that nobody can guess, and it holds an advisory lock that stands for
//! the channel. By that lock a releaser, who would grant a lock to one of our waiters, sees that the
//! session still lives. Anyone may see which keys are held, so the key is a hash, which does not tell
//! the channel.
//!
//! A client whose only claim is far from its turn does not listen, since until Postgres 19 each message wakes all
//! sessions that do. It waits in the server until its turn is near (`follow.sql`).
//!
//! ```text
//!               one claim, far from its turn
//!   Listening ──────────────────────────────────▶ Following ──┐ for a second
//!       ▲   ▲       near its turn                  │   │  ▲   │
//!       │   └──────────────────────────────────────┘   │  └───┘
//!       └──────────────────────────────────────────────┘
//!           another claim waits, or this one no more: cancelled
//! ```

use lock_core::{LockName, OwnerId};
use sqlx::postgres::{PgListener, PgRow};
use sqlx::{AssertSqlSafe, Error, Executor, Row};
use tokio::sync::{mpsc, oneshot, watch};

use super::waits::{FAR, Waiting, Waits};
use crate::server::Server;
use crate::session::listening;
use crate::sql::{Call, Flag, key};

/// A wait in the server keeps an old snapshot while it lasts. It is shorter than the time after which the server looks
/// for a deadlock.
const SETTINGS: &str = "SET search_path = pg_catalog, pg_temp; \
    SET default_transaction_isolation = 'read committed'; \
    SET statement_timeout = 0; SET lock_timeout = 900; \
    DO $$ BEGIN PERFORM set_config('log_parameter_max_length', '0', false); \
    EXCEPTION WHEN insufficient_privilege THEN NULL; END $$; ";

pub(super) struct Hearing {
    session: PgListener,
    server: Server,
    waits: Waits,
    messages: mpsc::UnboundedSender<String>,
    /// Number of its channel.
    pub(super) number: i64,
    /// The process of the server that serves it.
    process: i32,
    listens: bool,
    /// The claim for which it holds the lock that those behind wait for.
    follows: Option<OwnerId>,
}

impl Hearing {
    /// Opens a session, which listens.
    pub(super) async fn open(
        server: Server,
        waits: Waits,
        messages: mpsc::UnboundedSender<String>,
    ) -> Result<Self, Error> {
        let mut session = listening(server.connections.options()).await?;
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let number = number as i64;
        let channel = channel(number);
        let lock = key(channel.as_bytes());
        let begin = format!(
            "{SETTINGS}LISTEN {channel}; SELECT pg_backend_pid() FROM pg_try_advisory_lock(({lock})::bigint)"
        );
        let row = session.fetch_one(sqlx::raw_sql(AssertSqlSafe(begin))).await?;
        let process = row.try_get(0)?;
        let (listens, follows) = (true, None);
        Ok(Self { session, server, waits, messages, number, process, listens, follows })
    }

    /// Hears until the session is over, or nobody is there to be told.
    pub(super) async fn run(
        mut self,
        mut pings: mpsc::Receiver<oneshot::Sender<()>>,
    ) -> Result<(), Error> {
        let mut waits = self.waits.subscribe();
        loop {
            let (is_over, far) = {
                let waiting = waits.borrow_and_update();
                let far = waiting.alone_and_far().map(|(owner, name)| (owner, name.clone()));
                (self.follows.filter(|owner| !waiting.has(*owner)), far)
            };
            match (is_over, far) {
                (Some(owner), _) => self.leave(owner).await?,
                (None, Some((owner, name))) if !(self.listens && self.follows == Some(owner)) => {
                    self.follow(owner, &name, &mut waits).await?;
                }
                (None, None) if !self.listens => self.listen(&waits).await?,
                (None, _) => self.hear(&mut waits, &mut pings).await?,
            }
        }
    }

    /// Hears the next message, or learns what else there is to do.
    async fn hear(
        &mut self,
        waits: &mut watch::Receiver<Waiting>,
        pings: &mut mpsc::Receiver<oneshot::Sender<()>>,
    ) -> Result<(), Error> {
        tokio::select! {
            // The driver tells of a gap by no message.
            message = self.session.try_recv() => {
                self.tell(message?.ok_or(Error::PoolClosed)?.payload().to_owned())
            }
            changed = waits.changed() => changed.map_err(|_| Error::PoolClosed),
            ping = pings.recv() => {
                let ping = ping.ok_or(Error::PoolClosed)?;
                self.session.execute("SELECT 1").await?;
                // Sending fails if nobody waits for the answer any more.
                _ = ping.send(());
                Ok(())
            }
        }
    }

    /// Tells a claim of its grant. It does not wait any more.
    fn tell(&self, message: String) -> Result<(), Error> {
        let owner = message.split(':').next().and_then(|owner| owner.parse().ok());
        self.messages.send(message).map_err(|_| Error::PoolClosed)?;
        owner.into_iter().for_each(|owner| self.waits.remove(owner));
        Ok(())
    }

    /// Waits in the server, for up to a second, until the turn of the claim is near; no longer than there is
    /// nothing else to do.
    async fn follow(
        &mut self,
        owner: OwnerId,
        name: &LockName,
        waits: &mut watch::Receiver<Waiting>,
    ) -> Result<(), Error> {
        let first = self.follows.replace(owner) != Some(owner);
        self.listens = false;
        let call = Call::of_procedure(&self.server.names.function("follow"));
        let call = call.text(name.as_str()).owner(owner);
        let call = call.optional(first.then(|| place_key(owner))).number(self.number);
        let call = call.number(FAR.cast_signed()).flag(Flag(false)).optional_text(None);
        match self.row_unless_changed(&call, waits).await {
            Err(error) if is_cancelled(&error) => Ok(()),
            row => self.followed(&row?),
        }
    }

    /// Waits for the answer to a call, which is cancelled if there is something else to do.
    async fn row_unless_changed(
        &mut self,
        call: &Call,
        waits: &mut watch::Receiver<Waiting>,
    ) -> Result<PgRow, Error> {
        let mut answer = self.session.fetch_one(call.as_query());
        tokio::select! {
            row = &mut answer => return row,
            _ = waits.changed() => {}
        }
        let cancel = format!("SELECT pg_cancel_backend({})", self.process);
        // If that fails, the wait ends by itself within a second.
        tokio::join!(answer, self.server.ask(&cancel)).0
    }

    fn followed(&mut self, row: &PgRow) -> Result<(), Error> {
        self.listens = row.try_get(0)?;
        row.try_get::<Option<String>, _>(1)?.map_or(Ok(()), |message| self.tell(message))
    }

    /// Listens again. Those who wait look at their locks, since what was told meanwhile is gone (C28).
    async fn listen(&mut self, waits: &watch::Receiver<Waiting>) -> Result<(), Error> {
        let listen = format!("LISTEN {}", channel(self.number));
        self.session.execute(sqlx::raw_sql(AssertSqlSafe(listen))).await?;
        self.listens = true;
        for owner in waits.borrow().owners() {
            self.messages.send(owner.expose()).map_err(|_| Error::PoolClosed)?;
        }
        Ok(())
    }

    /// Lets those behind a claim come near.
    async fn leave(&mut self, owner: OwnerId) -> Result<(), Error> {
        self.follows = None;
        let unlock = sqlx::query("SELECT pg_advisory_unlock($1)").bind(place_key(owner));
        self.session.execute(unlock).await.map(drop)
    }
}

/// The key of the advisory lock that stands for a claim's place, as the function `key_ahead` has it.
fn place_key(owner: OwnerId) -> i64 {
    key(owner.expose().as_bytes())
}

fn is_cancelled(error: &Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "57014")
}

/// The name of the channel, as the function `hand_over` writes it.
fn channel(number: i64) -> String {
    format!("leasehold_{number:x}")
}
