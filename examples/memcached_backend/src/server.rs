//! The server: its items and its clock.

use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use async_memcached::{Client, Error, ErrorKind, MetaProtocol, MetaValue, Status};
use lock_core::backend::{ClockReading, Register};
use lock_core::{BackendError, LockName, Outcome};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::task::consume_budget;
use tokio::time::sleep;

pub(crate) const BACKEND: &str = "memcached";

/// Start of the keys, also in a listing.
const PREFIX: &str = "leasehold-";
const LISTED: &str = "key=leasehold-";

/// Most tries of a change while other clients change the item.
const TRIES: usize = 20;

/// The parts of an item to read: its value, its version, and its remaining time.
const READ: [&str; 3] = ["v", "c", "t"];

/// Longest value, a little less than the 1 MiB of an item with a server's defaults. A server that refuses a longer one
/// also deletes the item that it was to replace, and with it the hold.
const LONGEST: usize = 1_000_000;

const TOO_LONG: &str = "the lock remembers more than an item can hold: let its runs be remembered for a shorter time, or forget some";

/// Number of items that one request of a listing reads.
const PAGE: usize = 100;

/// Pause while the server lists for another client, and longest time to open a connection.
const BUSY: Duration = Duration::from_millis(10);
const OPENING: Duration = Duration::from_secs(3);

/// The server counts whole seconds, and reads the clock once a second: so its time may be nearly two seconds old.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// A server, with one connection that carries one request at a time.
pub(crate) struct Server {
    pub(crate) address: String,
    connection: Mutex<Connection>,
}

/// A connection, and one that is being opened, with its start. A request that gives up leaves the opening to the
/// next request, so that a slow connection is opened all the same.
struct Connection {
    client: Client,
    opening: Option<(Instant, Opening)>,
}

type Opening = Pin<Box<dyn Future<Output = Result<Client, Error>> + Send>>;

/// Content of an item: a lock, and the time until which the server keeps it, in seconds since 1970.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    kept_until: u64,
    register: Register,
}

/// A register, as read at a time of the server's clock.
pub(crate) struct StoredRegister {
    pub(crate) register: Register,
    pub(crate) at: ClockReading,
    /// The server's number of this version of the item: 0 if the server does not number versions. `None` if there
    /// is no item.
    cas: Option<u64>,
}

impl Server {
    pub(crate) async fn connect(address: &str) -> Result<Self, BackendError> {
        let client = opened(address.to_owned()).await.map_err(failure(Outcome::NotApplied))?;
        let connection = Mutex::new(Connection { client, opening: None });
        Ok(Self { address: address.to_owned(), connection })
    }

    /// C21: the driver closes a connection whose reply was not read to its end, also after a drop.
    pub(crate) async fn client(&self) -> Result<MappedMutexGuard<'_, Client>, BackendError> {
        let mut connection = self.connection.lock().await;
        if connection.client.is_closed() {
            connection.opening.take_if(|(since, _)| since.elapsed() > OPENING);
            let begin = || (Instant::now(), Box::pin(opened(self.address.clone())) as Opening);
            let (_, opening) = connection.opening.get_or_insert_with(begin);
            let client = opening.await;
            connection.opening = None;
            connection.client = client.map_err(failure(Outcome::NotApplied))?;
        }
        Ok(MutexGuard::map(connection, |connection| &mut connection.client))
    }

    pub(crate) async fn read(&self, name: &LockName) -> Result<StoredRegister, BackendError> {
        read(&mut *self.client().await?, name).await
    }

    /// Reads a register and changes it; writes it back if it differs. Keeps the connection in between, so that only
    /// other clients can come between the two.
    pub(crate) async fn change<T>(
        &self,
        name: &LockName,
        change: impl Fn(&mut Register, ClockReading) -> T,
    ) -> Result<T, BackendError> {
        for _ in 0..TRIES {
            let mut client = self.client().await?;
            let seen = read(&mut client, name).await?;
            let mut register = seen.register.clone();
            let outcome = change(&mut register, seen.at);
            if register == seen.register || replace(&mut client, &seen, register).await? {
                return Ok(outcome);
            }
        }
        let context = "others change this lock all the time";
        Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, "never in turn"))
    }

    /// Returns all registers.
    pub(crate) async fn all(&self) -> Result<Vec<StoredRegister>, BackendError> {
        let hashes = self.told("lru_crawler metadump hash\r\n", LISTED).await?;
        let keys: Vec<String> = hashes.iter().map(|hash| format!("{PREFIX}{hash}")).collect();
        let mut all = Vec::new();
        for page in keys.chunks(PAGE) {
            let items = self.client().await?.meta_get_multi(page, Some(&READ)).await;
            for item in items.map_err(failure(Outcome::NotApplied))? {
                let key = item.key.clone().unwrap_or_default();
                let register = seen(item);
                all.push(register.ok_or_else(|| no_register(&String::from_utf8_lossy(&key)))?);
            }
        }
        Ok(all)
    }

    /// Returns the words after `start` in the answer to a command that the driver does not support.
    pub(crate) async fn told(
        &self,
        command: &str,
        start: &str,
    ) -> Result<Vec<String>, BackendError> {
        self.words(command, start).await.map_err(|error| failure(Outcome::NotApplied)(error.into()))
    }

    async fn words(&self, command: &str, start: &str) -> io::Result<Vec<String>> {
        let mut lines = BufReader::new(TcpStream::connect(&self.address).await?).lines();
        lines.get_mut().write_all(command.as_bytes()).await?;
        let mut words = Vec::new();
        while let Some(line) = lines.next_line().await?.filter(|line| line != "END") {
            let word = line.strip_prefix(start).and_then(|rest| rest.split(' ').next());
            words.extend(word.map(str::to_owned));
            // The server makes one listing at a time; its housekeeping counts as one.
            if line.starts_with("BUSY") {
                sleep(BUSY).await;
                lines.get_mut().write_all(command.as_bytes()).await?;
            } else if line.contains("ERROR") {
                return Err(io::Error::other(line));
            }
            // R2: a long listing yields to other tasks now and then.
            consume_budget().await;
        }
        Ok(words)
    }
}

/// Opens a connection, and waits until it answers.
async fn opened(address: String) -> Result<Client, Error> {
    let mut client = Client::new(format!("tcp://{address}")).await?;
    client.version().await?;
    Ok(client)
}

async fn read(client: &mut Client, name: &LockName) -> Result<StoredRegister, BackendError> {
    let key = key(name);
    let item = client.meta_get(&key, false, None, Some(&READ)).await;
    if let Some(item) = item.map_err(failure(Outcome::NotApplied))? {
        return seen(item).ok_or_else(|| no_register(&key));
    }
    let stats = client.stats().await.map_err(failure(Outcome::NotApplied))?;
    let time = stats.get("time").and_then(|time| time.parse().ok());
    let time = time.ok_or_else(|| BackendError::refusal(BACKEND, "it tells no time"))?;
    Ok(StoredRegister { register: Register::new(name.clone()), at: reading(time), cas: None })
}

/// Replaces the register that was read; returns false, and does nothing, if it has changed since.
async fn replace(
    client: &mut Client,
    old: &StoredRegister,
    new: Register,
) -> Result<bool, BackendError> {
    let kept_until = old.at.now + Register::kept_for();
    let kept_until = kept_until.max(new.remembers_until().unwrap_or_default()).as_secs();
    let unchanged = old.cas.map_or("ME".to_owned(), |cas| format!("C{cas}"));
    let flags = [&*unchanged, &*format!("T{kept_until}")];
    let key = key(new.name());
    let value = serde_json::to_vec(&Item { kept_until, register: new });
    let value = value.map_err(|error| BackendError::refusal(BACKEND, error.to_string()))?;
    if old.cas == Some(0) {
        return Err(BackendError::refusal(BACKEND, "it runs without compare-and-swap (-C)"));
    }
    if value.len() > LONGEST {
        return Err(BackendError::refusal(BACKEND, TOO_LONG));
    }
    match client.meta_set(key, &*value, false, None, Some(&flags)).await {
        Err(Error::Protocol(Status::Exists | Status::NotStored | Status::NotFound)) => Ok(false),
        stored => stored.map(|_| true).map_err(failure(Outcome::Unknown)),
    }
}

/// The item has the time until which it is kept, and the server its remaining time: the difference is the
/// server's time.
fn seen(found: MetaValue) -> Option<StoredRegister> {
    let Item { kept_until, register } = serde_json::from_slice(&found.data?).ok()?;
    let at = reading(kept_until.checked_sub(found.ttl_remaining?.try_into().ok()?)?);
    Some(StoredRegister { register, at, cas: found.cas })
}

fn reading(seconds: u64) -> ClockReading {
    ClockReading { error: CLOCK_ERROR, ..ClockReading::exact(Duration::from_secs(seconds)) }
}

/// C2: a hash, so that no name is too long, and no character of it has a meaning.
fn key(name: &LockName) -> String {
    format!("{PREFIX}{}", hex::encode(Sha256::digest(name.as_str())))
}

/// C49: any other content of a key is not a lock, and never counts as a free one.
fn no_register(key: &str) -> BackendError {
    let what = format!(
        "the item {key}, which is no register that this version knows (use the version that wrote \
         it, or delete the item when nobody uses the lock)"
    );
    BackendError::not_a_lock(BACKEND, what)
}

/// C15: creates the error of a failed request with this outcome.
pub(crate) fn failure(outcome: Outcome) -> impl Fn(Error) -> BackendError {
    move |error| match error {
        Error::Protocol(Status::Error(ErrorKind::Client(_) | ErrorKind::Server(_))) => {
            BackendError::permanent(BACKEND, outcome, "it refuses", error.to_string())
        }
        _ => BackendError::transient(BACKEND, outcome, "no answer", error.to_string()),
    }
}
