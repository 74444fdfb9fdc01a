//! What endangers locks on a live server (C31).

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{BackendError, Finding, Outcome};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::server::{Server, failure};

/// Two machines that keep the time differ by less.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

pub(crate) async fn examine(server: &Server) -> Result<Vec<Finding>, BackendError> {
    let stats = server.client().await?.stats().await.map_err(failure(Outcome::NotApplied))?;
    let number = |key| stats.get(key).and_then(|value| value.parse().ok()).unwrap_or(0);
    let restarts = format!("it forgot all locks when it started, {} s ago", number("uptime"));
    Ok(vec![
        eviction(evicts(&server.address).await, number("evictions")),
        clock(Duration::from_secs(number("time"))),
        Finding::risk("persistence", restarts, "check tokens where the work is done"),
    ])
}

/// Whether a full server evicts. The driver does not ask for settings.
async fn evicts(address: &str) -> io::Result<bool> {
    let mut server = BufReader::new(TcpStream::connect(address).await?);
    server.write_all(b"stats settings\r\n").await?;
    let mut lines = server.lines();
    while let Some(line) = lines.next_line().await? {
        match &*line {
            "STAT evictions on" => return Ok(true),
            "STAT evictions off" => return Ok(false),
            "END" | "ERROR" => break,
            _ => {}
        }
    }
    Err(io::ErrorKind::Unsupported.into())
}

fn eviction(evicts: io::Result<bool>, evicted: u64) -> Finding {
    const REMEDY: &str = "start it with -M and with more memory than it needs, for locks alone";
    let seen = format!("evicted so far: {evicted} items");
    match evicts {
        Ok(false) if evicted == 0 => Finding::good("eviction", "it evicts nothing"),
        Ok(_) => Finding::risk("eviction", format!("a full server evicts locks; {seen}"), REMEDY),
        Err(_) => Finding::unknown("eviction", format!("it does not say; {seen}"), REMEDY),
    }
}

fn clock(theirs: Duration) -> Finding {
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seen = format!("its clock and ours differ by {} s", ours.abs_diff(theirs).as_secs());
    match ours.abs_diff(theirs) < CLOCKS_DIFFER {
        true => Finding::good("clock", seen),
        false => Finding::risk("clock", seen, "set its machine's clock, and restart it"),
    }
}
