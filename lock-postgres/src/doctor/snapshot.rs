//! The oldest snapshot of the server.

use std::time::Duration;

use lock_core::{BackendError, Finding};

use crate::reply;
use crate::server::Server;

/// A snapshot that is open for longer keeps old versions of rows longer than a report needs.
const SNAPSHOT_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// Finds the oldest snapshot in the whole database: it keeps old versions of rows from being cleared.
pub(super) async fn oldest(server: &Server) -> Result<Finding, BackendError> {
    const WHAT: &str = "the oldest snapshot";
    let rows = server.ask(OLDEST_SNAPSHOT).await?;
    let Some(row) = rows.first() else {
        return Ok(Finding::good("snapshot", "no other session has one open"));
    };
    let who: String = reply::get(row, 0, WHAT)?;
    let age = reply::get::<Option<i64>>(row, 1, WHAT)?;
    Ok(oldest_snapshot(&who, age.map(reply::micros)))
}

/// A vacuum's own snapshot does not count. The server shows a snapshot's owner and age only to some users. A prepared
/// transaction has no process, and a replication slot that nobody uses has no age.
const OLDEST_SNAPSHOT: &str = "SELECT who, (extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint FROM (\
    SELECT format('process %s (%s)', pid, coalesce(nullif(application_name, ''), 'unnamed')), xact_start, backend_xmin \
    FROM pg_catalog.pg_stat_activity \
    WHERE pid <> pg_backend_pid() AND backend_type IS DISTINCT FROM 'autovacuum worker' \
    UNION ALL SELECT 'the prepared transaction ' || gid, prepared, transaction FROM pg_catalog.pg_prepared_xacts \
    UNION ALL SELECT 'the replication slot ' || slot_name, NULL, xmin FROM pg_catalog.pg_replication_slots \
    WHERE NOT active) snapshot (who, since, oldest) \
    WHERE oldest IS NOT NULL ORDER BY age(oldest) DESC, since LIMIT 1";

fn oldest_snapshot(who: &str, age: Option<Duration>) -> Finding {
    let Some(age) = age else {
        let seen =
            format!("the oldest snapshot is that of {who}; the server does not tell its age");
        return Finding::unknown(
            "snapshot",
            seen,
            "ask as a member of pg_read_all_stats; drop a slot that is not used",
        );
    };
    let seen = format!("the oldest snapshot is {age:.0?} old: {who}");
    match age <= SNAPSHOT_TOLERANCE {
        true => Finding::good("snapshot", seen),
        false => Finding::risk(
            "snapshot",
            seen,
            "end that transaction, and limit such by idle_in_transaction_session_timeout: until it ends, old versions of rows stay, and tables grow",
        ),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Health;

    use super::*;

    #[test]
    fn c31_a_snapshot_is_judged_by_its_age() {
        let of = |age| oldest_snapshot("process 7 (report)", age);
        assert_eq!(of(Some(Duration::from_secs(2))).health, Health::Good);
        assert_eq!(of(Some(SNAPSHOT_TOLERANCE * 2)).health, Health::Risk);
        assert_eq!(of(None).health, Health::Unknown);
        assert!(of(Some(SNAPSHOT_TOLERANCE * 2)).seen.contains("600s old: process 7 (report)"));
    }
}
