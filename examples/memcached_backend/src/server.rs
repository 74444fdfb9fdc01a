//! The server: its items and its clock.

use std::time::Duration;

use async_memcached::{Client, Error, ErrorKind, MetaProtocol, MetaValue, Status};
use lock_core::backend::{ClockReading, Register};
use lock_core::{BackendError, LockName, Outcome};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

pub(crate) const BACKEND: &str = "memcached";

/// What our keys begin with. A listing shows these characters as they are.
const PREFIX: &str = "leasehold-";

/// The server counts whole seconds, and looks at the time once a second: so that what it says may be nearly
/// two seconds old.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// A server, and a connection that carries one request at a time.
pub(crate) struct Server {
    pub(crate) address: String,
    client: Mutex<Client>,
}

/// What an item holds: a lock, and until when the server keeps the item, in seconds since 1970.
#[derive(Serialize, Deserialize)]
struct Item {
    kept_until: u64,
    register: Register,
}

/// A register as it was at a moment of the server's clock.
pub(crate) struct Seen {
    pub(crate) register: Register,
    pub(crate) at: ClockReading,
    /// What the server calls this state of the item; `None` if there is no item.
    cas: Option<u64>,
}

impl Server {
    pub(crate) async fn connect(address: &str) -> Result<Self, BackendError> {
        let client = connected(address).await?.into();
        Ok(Self { address: address.to_owned(), client })
    }

    /// C21: the driver closes a connection whose reply was not read to its end, also if it was dropped.
    pub(crate) async fn client(&self) -> Result<MutexGuard<'_, Client>, BackendError> {
        let mut client = self.client.lock().await;
        if client.is_closed() {
            *client = connected(&self.address).await?;
        }
        Ok(client)
    }

    pub(crate) async fn read(&self, name: &LockName) -> Result<Seen, BackendError> {
        if let Some(seen) = self.get(&key(name)).await? {
            return Ok(seen);
        }
        let stats = self.client().await?.stats().await.map_err(failure(Outcome::NotApplied))?;
        let time = stats.get("time").and_then(|time| time.parse().ok()).ok_or_else(unreadable)?;
        Ok(Seen { register: Register::new(name.clone()), at: reading(time), cas: None })
    }

    async fn get(&self, key: &str) -> Result<Option<Seen>, BackendError> {
        let flags = Some(&["v", "c", "t"][..]);
        let item = self.client().await?.meta_get(key, false, None, flags).await;
        let item = item.map_err(failure(Outcome::NotApplied))?;
        item.map(|item| seen(item).ok_or_else(unreadable)).transpose()
    }

    /// Replaces what was seen; false if it is not so any more, and nothing was done.
    pub(crate) async fn replace(&self, old: &Seen, new: Register) -> Result<bool, BackendError> {
        let kept_until = (old.at.now + Register::kept_for()).as_secs();
        let unchanged = old.cas.map_or("ME".to_owned(), |cas| format!("C{cas}"));
        let flags = [&*unchanged, &*format!("T{kept_until}")];
        let key = key(new.name());
        let value = serde_json::to_vec(&Item { kept_until, register: new });
        let value = value.map_err(|_| unreadable())?;
        let mut client = self.client().await?;
        match client.meta_set(key, &*value, false, None, Some(&flags)).await {
            Err(Error::Protocol(Status::Exists | Status::NotStored | Status::NotFound)) => {
                Ok(false)
            }
            stored => stored.map(|_| true).map_err(failure(Outcome::Unknown)),
        }
    }

    /// All registers. One that is being written meanwhile may be missed.
    pub(crate) async fn all(&self) -> Result<Vec<Seen>, BackendError> {
        let keys = loop {
            let keys = keys(&mut *self.client().await?).await;
            match keys {
                // The server makes one listing at a time, and its housekeeping counts as one.
                Err(Error::Protocol(Status::Error(ErrorKind::Generic(_)))) => {
                    sleep(Duration::from_millis(10)).await;
                }
                keys => break keys.map_err(failure(Outcome::NotApplied))?,
            }
        };
        let mut all = Vec::new();
        for key in keys {
            all.extend(self.get(&key).await?);
        }
        Ok(all)
    }
}

async fn connected(address: &str) -> Result<Client, BackendError> {
    Client::new(format!("tcp://{address}")).await.map_err(failure(Outcome::NotApplied))
}

async fn keys(client: &mut Client) -> Result<Vec<String>, Error> {
    let (mut listing, mut keys) = (client.dump_keys().await?, Vec::new());
    while let Some(entry) = listing.next().await {
        let key = String::from_utf8_lossy(&entry?.key).into_owned();
        keys.extend(Some(key).filter(|key| key.starts_with(PREFIX)));
    }
    Ok(keys)
}

/// The item says until when it is kept, and the server for how long: the difference is the server's time.
fn seen(found: MetaValue) -> Option<Seen> {
    let Item { kept_until, register } = serde_json::from_slice(&found.data?).ok()?;
    let at = reading(kept_until.checked_sub(found.ttl_remaining?.try_into().ok()?)?);
    // Without compare-and-swap (-C) the server calls every state 0.
    let cas = Some(found.cas.filter(|cas| *cas != 0)?);
    Some(Seen { register, at, cas })
}

fn reading(seconds: u64) -> ClockReading {
    ClockReading { now: Duration::from_secs(seconds), error: CLOCK_ERROR }
}

/// C2: no name is too long, and nothing in it has a meaning.
fn key(name: &LockName) -> String {
    let hash = Sha256::digest(name.as_str());
    hash.iter().fold(PREFIX.to_owned(), |key, byte| format!("{key}{byte:02x}"))
}

/// C15: a request failed, and `outcome` is what may have come of it.
pub(crate) fn failure(outcome: Outcome) -> impl Fn(Error) -> BackendError {
    move |error| match error {
        Error::Protocol(Status::Error(ErrorKind::Client(_) | ErrorKind::Server(_))) => {
            BackendError::permanent(BACKEND, outcome, "it refuses", error.to_string())
        }
        _ => BackendError::transient(BACKEND, outcome, "no answer", error.to_string()),
    }
}

fn unreadable() -> BackendError {
    BackendError::refusal(BACKEND, "an item is not as we write it, or the server has no CAS (-C)")
}
