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
    let mut findings = Vec::new();
    let (unknown, missing): (BTreeSet<String>, BTreeSet<String>) =
        missing.into_iter().partition(|missing| missing.starts_with(UNKNOWN));
    if !unknown.is_empty() {
        let unknown: Vec<&str> =
            unknown.iter().filter_map(|name| name.strip_prefix(UNKNOWN)).collect();
        let seen =
            format!("the server has no {}: locks fail where they need it", unknown.join(", "));
        let remedy = "let its settings rename none of them (rename-command)";
        findings.push(Finding::risk("commands", seen, remedy));
    }
    if !missing.is_empty() {
        let (channel, commands): (Vec<String>, Vec<String>) =
            missing.into_iter().partition(|missing| missing == CHANNEL);
        let mut seen = Vec::new();
        if !commands.is_empty() {
            seen.push(format!("may not run {}", commands.join(", ")));
        }
        if !channel.is_empty() {
            seen.push("may not publish to the channels of clients".to_owned());
        }
        let rights = commands.iter().map(|command| format!("+{}", command.to_lowercase()));
        let rights: Vec<String> = rights.chain(channel).collect();
        let (seen, remedy) = (seen.join(", and "), format!("grant {}", rights.join(" ")));
        findings.push(Finding::risk("rights", format!("the user {seen}"), remedy));
    }
    match probed {
        Ok(()) if findings.is_empty() => {
            let seen = "the user may run the scripts, publish and subscribe";
            findings.push(Finding::good("rights", seen));
        }
        Err(error) if error.is_transient() => {
            let remedy = "see its log: until then no lock is granted or renewed";
            findings.push(Finding::risk("writes", error.to_string(), remedy));
        }
        Err(error) if is_unknown_command(&error) => {
            let remedy = "connect to the server itself: without SUBSCRIBE a wait looks once a second, \
                          and without any other command no lock is granted";
            findings.push(Finding::risk("commands", error.to_string(), remedy));
        }
        Err(error) if findings.is_empty() => {
            let (check, remedy) = match is_about_rights(&error) {
                true => {
                    ("rights", "grant the user what the documentation of the Redis backend lists")
                }
                false => ("writes", "mend that: until then no lock is granted"),
            };
            findings.push(Finding::risk(check, error.to_string(), remedy));
        }
        Ok(()) | Err(_) => {}
    }
    findings
}
