//! Dangers to locks on a live server (C31).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{BackendError, Finding, Outcome};

use crate::server::{Server, failure};

/// Synchronised machines differ by less than this.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

pub(crate) async fn examine(server: &Server) -> Result<Vec<Finding>, BackendError> {
    let stats = server.client().await?.stats().await.map_err(failure(Outcome::NotApplied))?;
    let number = |key| stats.get(key).and_then(|value| value.parse().ok()).unwrap_or(0);
    let evicts = server.told("stats settings\r\n", "STAT evictions ").await?;
    let restarts = format!("it forgot all locks when it started, {} s ago", number("uptime"));
    Ok(vec![
        eviction(evicts.first().map(String::as_str), number("evictions")),
        clock(Duration::from_secs(number("time"))),
        Finding::risk("persistence", restarts, "check tokens where the work is done"),
    ])
}

fn eviction(evicts: Option<&str>, evicted: u64) -> Finding {
    const REMEDY: &str = "start it with -M and with more memory than it needs, for locks alone";
    let seen = format!("evicted so far: {evicted} items");
    match evicts {
        Some("off") if evicted == 0 => Finding::good("eviction", "it evicts nothing"),
        Some(_) => Finding::risk("eviction", format!("a full server evicts locks; {seen}"), REMEDY),
        None => Finding::unknown("eviction", format!("it does not say; {seen}"), REMEDY),
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
