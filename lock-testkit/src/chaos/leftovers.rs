//! Checks for remains after all workers have given everything back.

use std::path::Path;
use std::time::Duration;

use lock_core::{LockClient, LockRequest, Wait};
use tokio::time::{Instant, sleep};

use super::journal::Journal;
use super::linear::Act;
use super::note::Event;
use super::report::Violation;
use super::store::Store;
use super::worker::{NAMES, REGISTERS};

/// Time that a busy machine may take beyond the bound of the store.
const SLACK: Duration = Duration::from_secs(20);

/// Waits until every lock is free and its queue is empty, acquires each, and notes the final values of the registers.
pub(super) async fn leftovers<S: Store>(
    operator: &LockClient,
    url: &str,
    folder: &Path,
    journal: &Journal,
) -> Vec<Violation> {
    let mut found = until_free::<S>(operator).await;
    for name in NAMES {
        let request = LockRequest::new(name).ttl(S::TTL).wait(Wait::AtMost(SLACK));
        match operator.acquire(request).await {
            Ok(guard) => drop(guard.release().await),
            Err(error) => found.push(Violation::at_end("L1", name, error.to_string())),
        }
    }
    for name in REGISTERS {
        note_value::<S>(url, folder, name, journal).await;
    }
    found
}

/// Waits until every lock is free and its queue is empty. Returns those that are not in time.
pub(super) async fn until_free<S: Store>(operator: &LockClient) -> Vec<Violation> {
    let mut found = Vec::new();
    // The longest TTL of a worker that was killed last.
    let deadline = Instant::now() + S::TTL * 3 + S::OUTLASTS + SLACK;
    for name in NAMES {
        while let Err(text) = is_free(operator, name).await {
            if Instant::now() > deadline {
                found.push(Violation::at_end("R1", name, text));
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    found
}

async fn is_free(operator: &LockClient, name: &str) -> Result<(), String> {
    let state = operator.admin().inspect(name).await.map_err(|error| error.to_string())?;
    let waiters = state.waiters.unwrap_or(0);
    match (state.holders.len(), waiters) {
        (0, 0) => Ok(()),
        (holders, _) => Err(format!("{holders} hold it and {waiters} wait, though all have ended")),
    }
}

/// Reads a register as one more operation of the history.
async fn note_value<S: Store>(url: &str, folder: &Path, name: &str, journal: &Journal) {
    let register = S::register(url, folder, name).await.expect("the faults are over");
    // Greater than all before: some registers refuse a read with a smaller token, as they refuse a write.
    let token = lock_core::FencingToken::MAX;
    let (operation, act) = (journal.number(), Act::Read(u64::MAX));
    journal.note(Event::Operation { operation, register: name.to_owned(), act });
    let value = register.read(token).await.expect("the faults are over");
    journal.note(Event::Returned { operation, outcome: Some(act.done(value)) });
}
