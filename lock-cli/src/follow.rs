//! Shared part of the commands that print until they are interrupted.

use std::fmt::Display;
use std::io;
use std::time::{Duration, SystemTime};

use leasehold::LockError;
use tokio::time::sleep;

use crate::exit::{Failure, chain};
use crate::terminal::{check_reader, warning};

/// Interval of looks, if the store sends no signals of changes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Returns the next item, unless the reader of our output goes away first.
pub(crate) async fn while_read<T>(
    next: impl Future<Output = Result<T, LockError>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        next = next => Ok(next?),
        gone = reader_gone() => Err(gone.into()),
    }
}

async fn reader_gone() -> io::Error {
    loop {
        if let Err(gone) = check_reader() {
            return gone;
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Reports that the server does not answer. It may come back.
pub(crate) fn tell_outage(error: &LockError) {
    warning(&format!("{}; still watching", chain(error)));
}

/// Returns a line with the time of day before it.
pub(crate) fn stamped(text: impl Display) -> String {
    format!("{} {text}", humantime::format_rfc3339_seconds(SystemTime::now()))
}
