//! Finds the commands that a user may not run (C31).
//!
//! A server reports that a script may not continue, but before Redis 7.2 not at which command. So each command is
//! tried.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::{BackendError, Finding};
use redis::cmd;

use crate::protocol::error::{is_about_rights, is_unknown_command, lacks_command, lacks_right};
use crate::protocol::keys::trial;
use crate::scripts::{Form, NO_KEYS, Servers, TRY_RIGHTS};
use crate::wire::node::Node;

/// Stands for the client's channel in a list of forbidden commands.
const CHANNEL: &str = "&leasehold-*";

/// Stands before a command that the server does not have in a list of forbidden commands.
const UNKNOWN: char = '!';

/// Returns the commands of the scripts that the user may not run, those that the server does not have behind
/// [`UNKNOWN`], and [`CHANNEL`] if the user may not publish there.
/// If `EVAL` is forbidden, it is the only item, since nothing can be tried then. Empty if the server does not answer.
pub(crate) async fn missing(node: &Node, servers: Servers, prefix: &str) -> Vec<String> {
    let args = (trial(prefix), &*node.channel);
    let trial = TRY_RIGHTS.call(Form::Text, servers, &NO_KEYS, args);
    match node.connection.send(trial).await {
        Ok(reply) => redis::from_redis_value(reply).unwrap_or_default(),
        Err(error) if lacks_right(&error) => vec!["EVAL".to_owned()],
        Err(_) => Vec::new(),
    }
}

/// Returns the doctor's findings on a user, where `probe` acts as a client.
pub(crate) async fn examine(
    nodes: &[Arc<Node>],
    servers: Servers,
    prefix: &str,
    probe: impl Future<Output = Result<(), BackendError>>,
) -> Vec<Finding> {
    let missing = join_all(nodes.iter().map(|node| missing_of_client(node, servers, prefix)));
    let missing = missing.await.into_iter().flatten().collect();
    findings(missing, probe.await)
}

/// Returns the client's commands that the user may not run on a server. The probe finds other obstacles.
async fn missing_of_client(node: &Node, servers: Servers, prefix: &str) -> Vec<String> {
    let mut missing = missing(node, servers, prefix).await;
    let mut scan = cmd("SCAN");
    scan.arg(0).arg("COUNT").arg(1);
    match node.connection.send(scan).await {
        Err(error) if lacks_right(&error) => missing.push("SCAN".to_owned()),
        Err(error) if lacks_command(&error) => missing.push(format!("{UNKNOWN}SCAN")),
        Ok(_) | Err(_) => {}
    }
    missing
}

/// Returns the findings on a user's rights, and on a probe of the server.
fn findings(missing: BTreeSet<String>, probed: Result<(), BackendError>) -> Vec<Finding> {
    let (unknown, missing): (BTreeSet<String>, BTreeSet<String>) =
        missing.into_iter().partition(|missing| missing.starts_with(UNKNOWN));
    let mut findings: Vec<_> =
        on_unknown(&unknown).into_iter().chain(on_missing(missing)).collect();
    findings.extend(on_probe(probed, findings.is_empty()));
    findings
}

fn on_unknown(unknown: &BTreeSet<String>) -> Option<Finding> {
    let names: Vec<&str> = unknown.iter().filter_map(|name| name.strip_prefix(UNKNOWN)).collect();
    let seen = format!("the server has no {}: locks fail where they need it", names.join(", "));
    let remedy = "let its settings rename none of them (rename-command)";
    (!names.is_empty()).then(|| Finding::risk("commands", seen, remedy))
}

fn on_missing(missing: BTreeSet<String>) -> Option<Finding> {
    let (channel, commands): (Vec<String>, Vec<String>) =
        missing.into_iter().partition(|missing| missing == CHANNEL);
    let mut seen = Vec::new();
    if !commands.is_empty() {
        seen.push(format!("may not run {}", commands.join(", ")));
    }
    if !channel.is_empty() {
        seen.push("may not publish to the channels of clients".to_owned());
    }
    let seen = (!seen.is_empty()).then(|| format!("the user {}", seen.join(", and ")))?;
    let rights = commands.iter().map(|command| format!("+{}", command.to_lowercase()));
    let rights: Vec<String> = rights.chain(channel).collect();
    Some(Finding::risk("rights", seen, format!("grant {}", rights.join(" "))))
}

/// Returns the finding on a probe. If rights are missing, they explain a lasting refusal.
fn on_probe(probed: Result<(), BackendError>, has_rights: bool) -> Option<Finding> {
    let Err(error) = probed else {
        let seen = "the user may run the scripts, publish and subscribe";
        return has_rights.then(|| Finding::good("rights", seen));
    };
    let (check, remedy) = if error.is_transient() {
        ("writes", "see its log: until then no lock is granted or renewed")
    } else if is_unknown_command(&error) {
        let remedy = "connect to the server itself: without SUBSCRIBE a wait looks once a second, \
                      and without any other command no lock is granted";
        ("commands", remedy)
    } else if !has_rights {
        return None;
    } else if is_about_rights(&error) {
        ("rights", "grant the user what the documentation of the Redis backend lists")
    } else {
        ("writes", "mend that: until then no lock is granted")
    };
    Some(Finding::risk(check, error.to_string(), remedy))
}
