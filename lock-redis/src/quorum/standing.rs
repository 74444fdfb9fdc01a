//! Finds the holds that stand on fewer than all servers: another failure may end them.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Finding, Holder, LockName};
use tokio::time::{sleep, timeout};

use super::backend::QuorumBackend;
use super::inspection::{ask_all, holder_on, state};
use super::majority::{Answers, have_answered};
use crate::protocol::listing::States;
use crate::protocol::listing::Unused;

const CHECK: &str = "holds";

/// Number of locks that one request inspects.
const PAGE: usize = 100;

/// Longest time of the whole search: an operator also waits for other checks.
const LIMIT: Duration = Duration::from_millis(700);

/// Pause before a second look. A hold that is just acquired, released or restored is not reported.
const PAUSE: Duration = Duration::from_millis(200);

/// Number of locks that a finding names.
const NAMED: usize = 5;

impl QuorumBackend {
    /// Checks that each hold stands on all servers, which all vote.
    pub(super) async fn examine_holds(&self, prefix: &str) -> Finding {
        match timeout(LIMIT, self.on_fewer_than_all(prefix)).await {
            Ok(Some((names, is_all))) if is_all || !names.is_empty() => {
                finding(&names, self.voters.len())
            }
            Ok(_) | Err(_) => Finding::unknown(
                CHECK,
                "there are too many locks to see quickly which ones stand on all servers",
                "wait for the longest TTL in use before another server is restarted",
            ),
        }
    }

    /// Returns the locks whose hold some server lacks, and true if all locks were looked at; `None` if no majority
    /// answers.
    async fn on_fewer_than_all(&self, prefix: &str) -> Option<(Vec<LockName>, bool)> {
        let (names, missing) = self.names(prefix, LIMIT / 2).await.ok()?;
        let mut incomplete = self.incomplete(&names).await?;
        if !incomplete.is_empty() {
            sleep(PAUSE).await;
            incomplete = self.incomplete(&incomplete).await?;
        }
        Some((incomplete, missing.is_empty()))
    }

    async fn incomplete(&self, names: &[LockName]) -> Option<Vec<LockName>> {
        let mut incomplete = Vec::new();
        for page in names.chunks(PAGE) {
            let names: Arc<[LockName]> = page.into();
            let mut round = ask_all(&self.voters, &names, Unused::LeftOut);
            let answers = round.all().await;
            if !have_answered(answers) {
                return None;
            }
            let is_incomplete = |index: &usize| is_incomplete(&names[*index], answers, *index);
            let found = (0..names.len()).filter(is_incomplete);
            incomplete.extend(found.map(|index| names[index].clone()));
        }
        Some(incomplete)
    }
}

/// Returns true if a client holds the lock, and a server lacks its hold.
fn is_incomplete(name: &LockName, answers: &Answers<States>, index: usize) -> bool {
    let Ok(state) = state(name, answers, index) else { return false };
    let Some(holder) = state.holder().filter(|holder| holder.token.is_some()) else { return false };
    let is_it = |other: &Holder| (&other.owner, other.token) == (&holder.owner, holder.token);
    let stands = |answer| holder_on(answer, index).is_some_and(is_it);
    !answers.iter().all(stands)
}

fn finding(names: &[LockName], servers: usize) -> Finding {
    if names.is_empty() {
        return Finding::good(CHECK, format!("each hold stands on all {servers} servers"));
    }
    let named: Vec<&str> = names.iter().take(NAMED).map(LockName::as_str).collect();
    let more = if names.len() > NAMED { ", …" } else { "" };
    let count = names.len();
    let seen = format!(
        "{count} of the holds stand on fewer than {servers} servers: {}{more}",
        named.join(", ")
    );
    let remedy = "restart no other server now; a renewal restores them, within a third of the TTL after the last \
                  server votes again";
    Finding::risk(CHECK, seen, remedy)
}
