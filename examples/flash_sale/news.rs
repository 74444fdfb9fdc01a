//! Reports of workers, one line each on their standard output.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use leasehold::FencingToken;

use crate::sale::Failure;

/// One line from a worker.
///
/// Times are spans since the Unix epoch. All processes of a machine share that clock. Lines have microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum News {
    /// The worker waits for the start.
    Ready,
    /// A buyer has an item, and the stock was written as `left`.
    Sold { at: Duration, left: u32 },
    /// A buyer was told that there is nothing left.
    SoldOut,
    /// The worker read the stock, and will write one less after a slow payment.
    AboutToWrite { token: FencingToken, read: u32 },
    /// The shop refused the write: it has seen a newer token.
    Refused { token: FencingToken, seen: FencingToken },
    /// The worker believed in its hold for this long. `kept` is the answer to the release: true if the worker
    /// still held the lock at the end.
    Held { token: FencingToken, from: Duration, to: Duration, kept: bool },
}

/// Returns the time on the clock that all processes share.
pub(crate) fn now() -> Duration {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default()
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Sold { at, left } => write!(f, "sold {} {left}", at.as_micros()),
            Self::SoldOut => f.write_str("sold-out"),
            Self::AboutToWrite { token, read } => write!(f, "about-to-write {token} {read}"),
            Self::Refused { token, seen } => write!(f, "refused {token} {seen}"),
            Self::Held { token, from, to, kept } => {
                let (from, to) = (from.as_micros(), to.as_micros());
                write!(f, "held {token} {from} {to} {kept}")
            }
        }
    }
}

impl FromStr for News {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let words: Vec<_> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["ready"] => Self::Ready,
            ["sold", at, left] => Self::Sold { at: moment(at)?, left: left.parse()? },
            ["sold-out"] => Self::SoldOut,
            ["about-to-write", token, read] => {
                Self::AboutToWrite { token: token.parse()?, read: read.parse()? }
            }
            ["refused", token, seen] => {
                Self::Refused { token: token.parse()?, seen: seen.parse()? }
            }
            ["held", token, from, to, kept] => Self::Held {
                token: token.parse()?,
                from: moment(from)?,
                to: moment(to)?,
                kept: kept.parse()?,
            },
            _ => return Err(format!("a worker said \"{line}\"").into()),
        })
    }
}

fn moment(micros: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_micros(micros.parse()?))
}
