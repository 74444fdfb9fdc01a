//! Dangers to locks on a live server.

mod snapshot;

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use lock_core::{BackendError, Finding, OwnerId};
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use crate::connections::CONNECT_LIMIT;
use crate::error::{RequestError, classify};
use crate::schema::{Found, RUN_THE_SCRIPT};
use crate::server::Server;
use crate::{reply, session};

/// A queue of notifications that is fuller than this is not read by somebody.
const FULL_PERCENT: i64 = 5;

/// With fewer free connections than this the server may soon have none.
const HEADROOM: i64 = 10;

/// Looks at a server (C31).
pub(crate) async fn examine(server: &Server) -> Result<Vec<Finding>, BackendError> {
    let facts = Facts::learn(server).await?;
    let found = server.found().await.map_err(classify)?;
    Ok(vec![
        version(&facts),
        role(&facts),
        pooler(server).await?,
        listening(server).await,
        notifications(&facts),
        durability(&facts),
        snapshot::oldest(server).await?,
        logging(server.is_direct(), &facts),
        encoding(&facts),
        schema(server, &facts, &found).await,
        queue(server, &facts).await?,
        rights(&found),
        connections(&facts),
        clock(server).await?,
    ])
}

/// The server's facts about itself, as texts.
struct Facts(HashMap<String, String>);

/// The server shows the kind of other users' sessions only to some users.
const FACTS: &str = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN (\
    'server_version', 'synchronous_commit', 'fsync', 'full_page_writes', \
    'server_encoding', 'max_connections', 'superuser_reserved_connections', 'reserved_connections', \
    'default_transaction_read_only', 'synchronous_standby_names', 'log_statement', \
    'log_min_duration_statement', 'log_min_duration_sample', 'log_parameter_max_length', \
    'auto_explain.log_min_duration', 'auto_explain.log_nested_statements') \
    UNION ALL SELECT 'standby', pg_is_in_recovery()::text \
    UNION ALL SELECT 'connections', count(*)::text FROM pg_catalog.pg_stat_activity \
    WHERE usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend' \
    UNION ALL SELECT 'notifications', (pg_notification_queue_usage() * 100)::bigint::text";

impl Facts {
    async fn learn(server: &Server) -> Result<Self, BackendError> {
        const WHAT: &str = "the server's settings";
        let rows = server.ask(FACTS).await?;
        let fact = |row| Ok((reply::get(row, 0, WHAT)?, reply::get(row, 1, WHAT)?));
        Ok(Self(rows.iter().map(fact).collect::<Result<_, BackendError>>()?))
    }

    /// Returns the value; empty if the server does not show it.
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    fn takes_writes(&self) -> bool {
        self.get("standby") == "false" && self.get("default_transaction_read_only") != "on"
    }

    fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or(0)
    }
}

fn version(facts: &Facts) -> Finding {
    // Connecting already refuses versions that are too old.
    Finding::good("version", format!("it is Postgres {}", facts.get("server_version")))
}

fn role(facts: &Facts) -> Finding {
    match facts.get("standby") {
        "false" if facts.get("default_transaction_read_only") == "on" => Finding::risk(
            "role",
            "default_transaction_read_only is on for this user or database: no lock is granted",
            "ALTER ROLE … RESET default_transaction_read_only, or the same for the database; or \
             options[default_transaction_read_only]=off in the URL",
        ),
        "false" => {
            Finding::good("role", "a primary; a failover can lose commits that are not synchronous")
        }
        _ => Finding::risk(
            "role",
            "the server is a standby: it takes no writes",
            "use the address of the primary, or target_session_attrs of the pooler",
        ),
    }
}

async fn pooler(server: &Server) -> Result<Finding, BackendError> {
    if server.is_direct() {
        return Ok(Finding::good("pooler", "each connection has a session of its own"));
    }
    Ok(match has_room_for_two(server).await.map_err(classify)? {
        true => Finding::risk(
            "pooler",
            "connections share sessions: waiters poll, since no notification reaches them",
            "connect directly or to a pool of sessions, or accept slower hand-offs",
        ),
        false => Finding::risk(
            "pooler",
            "connections share sessions, and beside one open transaction the pool has no second session: a \
             renewal waits for the transactions of the job that holds the lock, and the hold may be lost",
            "give the pool two sessions or more, or connect directly",
        ),
    })
}

/// Returns true if the pool serves a request beside an open transaction.
async fn has_room_for_two(server: &Server) -> Result<bool, RequestError> {
    let (mut one, mut other) =
        tokio::try_join!(server.connections.open(), server.connections.open())?;
    // A pooler by statement refuses a transaction, and keeps none of its sessions for one.
    let Ok(mut open) = one.begin().await else { return Ok(true) };
    open.execute("SELECT 1").await.map_err(RequestError::Execute)?;
    // A client waits for all checks as long as for one request, so each probe ends far sooner.
    let answered =
        timeout(CONNECT_LIMIT / 4, other.execute(sqlx::raw_sql("SELECT 1"))).await.is_ok();
    open.rollback().await.map_err(RequestError::Execute)?;
    Ok(answered)
}

/// Finds if the client can have a session that listens: a pool of sessions may have none left.
async fn listening(server: &Server) -> Finding {
    if !server.is_direct() {
        return Finding::good("listening", "waiters poll");
    }
    match timeout(CONNECT_LIMIT / 2, server.connections.opener.log_in(session::listening)).await {
        Ok(Ok(_)) => Finding::good("listening", "a session that listens can be opened"),
        Ok(Err(_)) | Err(_) => Finding::risk(
            "listening",
            "no session could be opened to listen: waiters poll once a second, and hand-offs are slow",
            "raise the size of the pool, or max_connections: a client uses one session to listen while it waits",
        ),
    }
}

/// Finds if the queue of notifications is read: once it is full, no hand-off can be told.
fn notifications(facts: &Facts) -> Finding {
    let seen = format!("{}% of the queue of notifications are in use", facts.get("notifications"));
    match facts.number("notifications") < FULL_PERCENT {
        true => Finding::good("notifications", seen),
        false => Finding::risk(
            "notifications",
            seen,
            "end the session that has listened and does not read, such as one that is idle in a transaction: each \
             LISTEN reads the whole queue, and when it is full no hand-off is told",
        ),
    }
}

fn durability(facts: &Facts) -> Finding {
    let off: Vec<&str> = ["fsync", "full_page_writes", "synchronous_commit"]
        .into_iter()
        .filter(|setting| facts.get(setting) == "off")
        .collect();
    let waits_for_standbys = !facts.get("synchronous_standby_names").is_empty();
    match off.as_slice() {
        [] if waits_for_standbys && facts.get("synchronous_commit") == "local" => Finding::risk(
            "durability",
            "synchronous_commit is local: a grant does not wait for the synchronous standbys, and a \
             failover to one of them can grant the lock twice",
            "set synchronous_commit on for the user of the locks",
        ),
        [] => Finding::good("durability", "commits are on disk"),
        // Grants, renewals and fences turn synchronous commit on for themselves; releases do not.
        ["synchronous_commit"] => Finding::risk(
            "durability",
            "synchronous_commit is off: a crash forgets the last releases, whose locks then wait for \
             their TTL",
            "set synchronous_commit on for the user of the locks",
        ),
        off => Finding::risk(
            "durability",
            format!("{} off: a crash of the machine can lose locks and tokens", off.join(" and ")),
            "turn them on",
        ),
    }
}

/// C3: finds if the server writes owner ids to its log, as values beside a statement or within its text.
fn logging(is_direct: bool, facts: &Facts) -> Finding {
    let logs_statements = facts.get("log_statement") == "all"
        || ["log_min_duration_statement", "log_min_duration_sample"]
            .iter()
            .any(|setting| !matches!(facts.get(setting), "" | "-1"));
    let logs_values = !is_direct || facts.get("log_parameter_max_length") != "0";
    if !matches!(facts.get("auto_explain.log_min_duration"), "" | "-1")
        && facts.get("auto_explain.log_nested_statements") == "on"
    {
        return Finding::risk(
            "logging",
            "auto_explain logs the plans of nested statements, and with them owner ids, which are passwords of holds",
            "ALTER ROLE … SET auto_explain.log_nested_statements = off for the user of the locks",
        );
    }
    match (logs_statements, logs_values) {
        (false, _) => Finding::good("logging", "statements are not logged"),
        (true, false) => Finding::good("logging", "statements are logged without their values"),
        (true, true) if is_direct => Finding::risk(
            "logging",
            "statements are logged with their values, and so with owner ids, which are passwords of holds",
            "ALTER ROLE … SET log_parameter_max_length = 0 for the user of the locks",
        ),
        (true, true) => Finding::risk(
            "logging",
            "statements are logged, and behind this pooler they hold owner ids, which are passwords of \
             holds",
            "turn off log_statement and log_min_duration_statement for the user of the locks, or connect \
             directly",
        ),
    }
}

fn encoding(facts: &Facts) -> Finding {
    match facts.get("server_encoding") {
        "UTF8" => Finding::good("encoding", "the database holds any name"),
        other => Finding::risk(
            "encoding",
            format!("the encoding of the database is {other}: some names cannot be used"),
            "use a database with the encoding UTF8",
        ),
    }
}

/// Finds if the tables and functions exist, and the user may use them.
async fn schema(server: &Server, facts: &Facts, found: &Found) -> Finding {
    if !facts.takes_writes() {
        let why = "no lock is taken without writes";
        return Finding::unknown("schema", why, "examine a primary that takes them");
    }
    if let Some((seen, remedy)) = found.distrust() {
        return Finding::risk("schema", seen, remedy);
    }
    if let Some(seen) = found.changed() {
        return Finding::risk("schema", seen, RUN_THE_SCRIPT);
    }
    const NAME: &str = "leasehold-doctor";
    let probe = server.call("withdraw").text(NAME).owners([OwnerId::random()].into_iter());
    let Err(error) = server.rows(&probe.number(server.clock_limit())).await else {
        return Finding::good("schema", "tables and functions are there, and may be used");
    };
    // Without room on the disk, say, no lock is granted either.
    let remedy = match error.is_transient() {
        true => "correct that, unless it passes by itself, and examine the server again",
        false => "run the output of `leasehold schema postgres`, and grant the user its use",
    };
    Finding::risk("schema", error.to_string(), remedy)
}

/// Finds if new waiters come after those that were served.
async fn queue(server: &Server, facts: &Facts) -> Result<Finding, BackendError> {
    const WHAT: &str = "the places in the queue";
    if !facts.takes_writes() {
        return Ok(Finding::unknown("queue", "nobody waits without writes", "examine a primary"));
    }
    // The function reads all grants, of which there may be millions.
    let question = "SET LOCAL statement_timeout = 500; ".to_owned()
        + &server.call("places_are_behind").as_text();
    let behind = match server.ask(&question).await {
        Ok(rows) => reply::get::<bool>(&reply::only(rows, WHAT)?, 0, WHAT)?,
        Err(error) => return Ok(Finding::unknown("queue", error.to_string(), RUN_THE_SCRIPT)),
    };
    Ok(match behind {
        false => Finding::good("queue", "new places follow the served ones"),
        true => Finding::risk(
            "queue",
            "the sequence of places is behind those that were served, as after a switchover by logical \
             replication: waiters have no order, and no lock is handed over",
            RUN_THE_SCRIPT,
        ),
    })
}

/// Finds if the user may call each routine that clients call.
fn rights(found: &Found) -> Finding {
    match found.missing_rights() {
        None => Finding::good("rights", "the user may call all routines of clients"),
        Some((seen, remedy)) => Finding::risk("rights", seen, remedy),
    }
}

fn connections(facts: &Facts) -> Finding {
    let reserved =
        facts.number("superuser_reserved_connections") + facts.number("reserved_connections");
    let (used, most) = (facts.number("connections"), facts.number("max_connections") - reserved);
    let seen = format!("{used} of {most} connections are in use");
    match most - used >= HEADROOM {
        true => Finding::good("connections", seen),
        false => Finding::risk("connections", seen, "raise max_connections, or use a pooler"),
    }
}

async fn clock(server: &Server) -> Result<Finding, BackendError> {
    let before = SystemTime::now();
    let request = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let row = reply::only(server.ask(request).await?, "the server's time")?;
    let after = SystemTime::now();
    let since_1970 = reply::micros(reply::get(&row, 0, "the server's time")?);
    let theirs = UNIX_EPOCH.checked_add(since_1970).unwrap_or(UNIX_EPOCH);
    Ok(Finding::of_clock(before, theirs, after))
}

#[cfg(test)]
mod tests {
    use lock_core::Health;

    use super::*;

    fn facts(facts: &[(&str, &str)]) -> Facts {
        Facts(facts.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn c31_settings_are_judged() {
        let health =
            |check: fn(&Facts) -> Finding, given: &[(&str, &str)]| check(&facts(given)).health;
        assert_eq!(health(role, &[("standby", "true")]), Health::Risk);
        assert_eq!(
            health(durability, &[("fsync", "on"), ("synchronous_commit", "local")]),
            Health::Good
        );
        let standbys = ("synchronous_standby_names", "one");
        assert_eq!(health(durability, &[("synchronous_commit", "local"), standbys]), Health::Risk);
        assert_eq!(health(durability, &[("synchronous_commit", "on"), standbys]), Health::Good);
        assert_eq!(health(durability, &[("synchronous_commit", "off")]), Health::Risk);
        assert_eq!(health(durability, &[("full_page_writes", "off")]), Health::Risk);
        assert_eq!(health(encoding, &[("server_encoding", "LATIN1")]), Health::Risk);
        assert_eq!(health(notifications, &[("notifications", "0")]), Health::Good);
        assert_eq!(health(notifications, &[("notifications", "14")]), Health::Risk);
        let full = [("connections", "95"), ("max_connections", "100")];
        assert_eq!(health(connections, &full), Health::Risk);
    }

    #[test]
    fn c31_logging_is_judged_by_what_it_shows() {
        let health = |is_direct, given: &[_]| logging(is_direct, &facts(given)).health;
        let (all, no_values) = (("log_statement", "all"), ("log_parameter_max_length", "0"));
        assert_eq!(health(true, &[("log_statement", "ddl")]), Health::Good);
        assert_eq!(health(true, &[all, no_values]), Health::Good);
        assert_eq!(health(true, &[all, ("log_parameter_max_length", "-1")]), Health::Risk);
        assert_eq!(health(false, &[all, no_values]), Health::Risk);
        let slow = ("log_min_duration_statement", "250");
        assert_eq!(health(false, &[("log_statement", "none"), slow]), Health::Risk);
        assert_eq!(health(false, &[("log_min_duration_statement", "-1")]), Health::Good);
        let plans = ("auto_explain.log_min_duration", "0");
        let nested = |nested| ("auto_explain.log_nested_statements", nested);
        assert_eq!(health(true, &[plans, nested("off")]), Health::Good);
        assert_eq!(health(true, &[plans, nested("on")]), Health::Risk);
    }
}
