//! Keyspace events: the server's messages about keys, if its operator has them on.
//!
//! They come over the connection for grants. The client does not ask if they are on: that takes a right that few
//! users have, and an operator may turn them on later. A watch polls in any case (C28).

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use lock_core::LockName;
use parking_lot::Mutex;
use redis::aio::PubSubSink;
use tokio::sync::watch;

use crate::protocol::keys::{self, Keys};

/// The events of locks' keys, and their watches.
pub(crate) struct KeyEvents {
    /// The number of the locks' database.
    database: i64,
    connection: watch::Sender<Option<PubSubSink>>,
    /// By the key of the lock.
    watched: Mutex<HashMap<String, Watched>>,
}

/// A lock that is watched.
#[derive(Default)]
struct Watched {
    watches: usize,
    told: watch::Sender<()>,
}

impl KeyEvents {
    pub(crate) fn new(database: i64) -> Self {
        Self { database, connection: watch::Sender::new(None), watched: Mutex::default() }
    }

    /// Receives events on this connection from now on; on none if the last one is lost.
    pub(crate) fn heard_on(&self, connection: Option<PubSubSink>) {
        self.connection.send_replace(connection);
    }

    /// Returns true if anybody listens.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.watched.lock().is_empty()
    }

    /// Passes an event on to its watches.
    pub(crate) fn tell(&self, channel: &str, event: &[u8]) {
        // C44: a renewal is no change. A grant comes with two events, and one is enough.
        if matches!(event, b"expire" | b"setrange") {
            return;
        }
        let watched = self.watched.lock();
        if let Some(lock) = keys::lock_of_events(channel).and_then(|lock| watched.get(lock)) {
            lock.told.send_replace(());
        }
    }

    /// Watches a lock. Nothing is sent before the first [`next`](KeyWatch::next).
    pub(crate) fn watch(self: &Arc<Self>, name: &LockName) -> KeyWatch {
        let keys = Keys::new(name);
        let (lock, channels) = (keys.lock().to_string(), keys.events(self.database));
        let mut watched = self.watched.lock();
        let entry = watched.entry(lock.clone()).or_default();
        entry.watches += 1;
        let (told, mut connection) = (entry.told.subscribe(), self.connection.subscribe());
        // The present connection is new to this watch.
        connection.mark_changed();
        KeyWatch { events: self.clone(), lock, channels, told, connection }
    }

    /// Removes one watch of `lock`.
    fn end_watch(&self, lock: &str, channels: &[String]) {
        let mut watched = self.watched.lock();
        let Some(entry) = watched.get_mut(lock) else { return };
        entry.watches -= 1;
        if entry.watches > 0 {
            return;
        }
        watched.remove(lock);
        // R1: sent here, while nobody else can begin to watch the lock. The answer is not awaited.
        if let Some(mut connection) = self.connection.borrow().clone() {
            let _ = connection.unsubscribe(channels).now_or_never();
        }
    }
}

/// A watch of a lock by its events. It ends when it is dropped.
pub(crate) struct KeyWatch {
    events: Arc<KeyEvents>,
    lock: String,
    channels: [String; 2],
    told: watch::Receiver<()>,
    connection: watch::Receiver<Option<PubSubSink>>,
}

/// News of a watch.
pub(crate) enum News {
    /// The lock changed, or may have changed while there was no connection.
    Change,
    /// There is no connection, and one must be opened.
    NoConnection,
}

impl KeyWatch {
    /// Waits for news; `None` if the server refuses to send any.
    pub(crate) async fn next(&mut self) -> Option<News> {
        loop {
            tokio::select! {
                biased;
                another = self.connection.changed() => another.ok()?,
                told = self.told.changed() => return told.ok().map(|()| News::Change),
            }
            let connection = self.connection.borrow_and_update().clone();
            let Some(mut connection) = connection else { return Some(News::NoConnection) };
            match connection.subscribe(&self.channels[..]).await {
                // Earlier changes have no event.
                Ok(()) => return Some(News::Change),
                Err(refused) if refused.code().is_some() => return None,
                // The subscription failed with its connection, and another connection comes.
                Err(_) => {}
            }
        }
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.events.end_watch(&self.lock, &self.channels);
    }
}
