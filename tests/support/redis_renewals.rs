//! Effects of a request that renews two holds on Redis servers.

use std::sync::Arc;

use leasehold::core::backend::{Extension, Renewal};
use leasehold::{DistributedLock, LockRequest, Ttl};
use lock_testkit::LeaseExt;
use lock_testkit::Reply;

use crate::support::MINUTE;

/// Acquires two locks for a minute; returns the requests that renew them for these TTLs.
async fn held(
    locks: &Arc<dyn DistributedLock>,
    names: &[String; 2],
    ttls: [Ttl; 2],
) -> Vec<Renewal> {
    let mut renewals = Vec::new();
    for (name, ttl) in names.iter().zip(ttls) {
        let request = LockRequest::new(name).ttl(MINUTE);
        let lease = locks.acquire_lease(&request).await.expect("a free lock");
        renewals.push(Renewal::new(&lease, ttl));
    }
    renewals
}

async fn renew(locks: &Arc<dyn DistributedLock>, renewals: &[Renewal]) {
    for (answer, renewal) in locks.extend(renewals).await.into_iter().zip(renewals) {
        assert_eq!(answer.expect("an answer"), Extension::Extended(renewal.ttl.as_duration()));
    }
}

/// A hold may outlive the lifetime of its counter: a renewal extends the counter. The longest TTL reaches from
/// any hour of a day to the day's start. `cli` runs a command on all servers of a name.
pub(crate) async fn counters_outlast_holds(
    locks: Arc<dyn DistributedLock>,
    names: [String; 2],
    cli: impl Fn(&str, &[&str]) -> Vec<Reply>,
) {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let renewals = held(&locks, &names, [Ttl::MAX; 2]).await;
    let counters = names.map(|name| format!("{{{name}}}:fence"));
    for renewed in [&renewals[..], &renewals[..1]] {
        for counter in &counters {
            cli(counter, &["PEXPIRE", counter, &DAY.to_string()]);
        }
        renew(&locks, renewed).await;
        for (counter, _) in counters.iter().zip(renewed) {
            let left = left(&cli, counter);
            let is_kept = !left.is_empty() && left.iter().all(|left| *left > 6 * DAY);
            assert!(is_kept, "{counter} is kept for {left:?} ms more");
        }
    }
}

/// Asserts that the holds of one request each last for their own TTL.
pub(crate) async fn holds_last_for_their_own_ttls(
    locks: Arc<dyn DistributedLock>,
    names: [String; 2],
    cli: impl Fn(&str, &[&str]) -> Vec<Reply>,
) {
    let ttls = [MINUTE * 2, MINUTE * 4].map(|ttl| Ttl::new(ttl).expect("a good TTL"));
    let renewals = held(&locks, &names, ttls).await;
    renew(&locks, &renewals).await;
    for (name, ttl) in names.iter().zip(ttls) {
        let (left, ttl) = (left(&cli, name), ttl.as_millis() as i64);
        let is_own = !left.is_empty() && left.iter().all(|left| (ttl / 2 + 1..=ttl).contains(left));
        assert!(is_own, "{name} lasts for {left:?} of {ttl} ms");
    }
}

/// Returns the remaining ms of a key, on each server that has it.
fn left(cli: impl Fn(&str, &[&str]) -> Vec<Reply>, key: &str) -> Vec<i64> {
    let left = cli(key, &["PTTL", key]);
    left.iter().map(Reply::integer).filter(|left| *left > 0).collect()
}
