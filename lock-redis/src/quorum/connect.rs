//! Connects to the servers of a set, which one URL names.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lock_core::LockError;

use super::backend::QuorumBackend;
use super::majority::{have_answered, too_few};
use super::membership;
use super::round::Round;
use super::voter::Voter;
use crate::topology::hosts::Hosts;
use crate::topology::options::{RedisOptions, unusable};

/// Longest time of a server's first answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Port of a server that the URL names without one.
const DEFAULT_PORT: u16 = 6379;

impl QuorumBackend {
    /// Connects to the servers of `redis-quorum://[user:password@]host[:port],host[:port],host[:port][/database]`, or
    /// with TLS of `rediss-quorum://…`, and checks that a majority of them answers.
    ///
    /// All servers have the same user, password and database. The first client of a new set needs an answer from all
    /// of them once.
    ///
    /// # Errors
    /// As [`RedisOptions::connect_quorum`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        RedisOptions::new(url).connect_quorum().await
    }
}

impl RedisOptions {
    /// Connects to a majority of several servers: [`QuorumBackend::connect`], with options. Its tokens come from
    /// clients' clocks, so [`trust_any_clock`](Self::trust_any_clock) has no effect.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used: an even number of servers, fewer than three, one of them
    ///   twice, or TLS that is not compiled in. The text does not repeat the URL, since it may hold a password.
    /// - [`LockError::Backend`] if no majority can be reached, or a majority refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect_quorum(self) -> Result<QuorumBackend, LockError> {
        let voters = voters(&self)?;
        self.certificates_of_url()?.read().await?;
        let tell = |voter: Arc<Voter>| async move { voter.tell_within(CONNECT_LIMIT).await };
        let mut told = Round::ask(&voters, tell);
        let answers = told.all().await;
        refuse_cluster(&voters)?;
        refuse_twins(&voters)?;
        if !have_answered(answers) {
            let source = too_few(answers);
            return Err(LockError::Backend { operation: "connect", name: None, source });
        }
        membership::begin(&voters, answers).await;
        Ok(QuorumBackend::new(voters))
    }
}

/// The servers that the URL names.
fn voters(options: &RedisOptions) -> Result<Vec<Arc<Voter>>, LockError> {
    let (hosts, database) = Hosts::of(options, DEFAULT_PORT)?;
    let hosts = hosts.with_database(&database)?;
    let addresses = hosts.addresses.iter().map(|address| address.to_ascii_lowercase());
    let addresses: Vec<String> = addresses.collect();
    refuse_bad_number(&addresses)?;
    let voter = |address: String| {
        let opener = hosts.opener(&address)?;
        Ok(Arc::new(Voter::new(address, opener)))
    };
    addresses.into_iter().map(voter).collect()
}

/// Refuses an even number: its majority survives no more losses than with one server less, and that of two servers
/// survives none.
fn refuse_bad_number(addresses: &[String]) -> Result<(), LockError> {
    let mut seen = HashSet::new();
    if let Some(twice) = addresses.iter().find(|address| !seen.insert(*address)) {
        return Err(unusable(&format!("{twice} is named twice: name each server once")));
    }
    match addresses.len() {
        one_or_two @ ..3 => Err(unusable(&format!(
            "it names {one_or_two}, whose majority tolerates no failure: name three servers or five, or use \
             redis:// with one"
        ))),
        even if even % 2 == 0 => Err(unusable(&format!(
            "it names {even}, which tolerate no more failures than {}: remove one, or add one",
            even - 1
        ))),
        _ => Ok(()),
    }
}

/// Refuses the servers of a cluster: they divide the slots among them, so none has all locks.
fn refuse_cluster(voters: &[Arc<Voter>]) -> Result<(), LockError> {
    let mut voters = voters.iter();
    match voters.find(|voter| voter.known("cluster_enabled").as_deref() == Some("1")) {
        Some(voter) => Err(unusable(&format!(
            "{} is part of a cluster, which keeps each lock once: connect to it by redis-cluster://, or name servers \
             that are part of none",
            voter.address
        ))),
        None => Ok(()),
    }
}

/// Refuses two addresses of one server, which would vote twice, and a replica, which repeats the votes of its
/// primary.
fn refuse_twins(voters: &[Arc<Voter>]) -> Result<(), LockError> {
    for (number, voter) in voters.iter().enumerate() {
        for other in &voters[..number] {
            let share = |key| voter.known(key).is_some_and(|one| other.known(key) == Some(one));
            let reason = match (share("run_id"), share("master_replid")) {
                (true, _) => "are the same server: a server has one vote, so name each once",
                (_, true) => {
                    "replicate each other, or a third server: name independent servers, or only the primary"
                }
                _ => continue,
            };
            return Err(unusable(&format!("{} and {} {reason}", other.address, voter.address)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        voters(&RedisOptions::new(url)).expect_err(url).to_string()
    }

    #[tokio::test]
    async fn each_server_is_called_by_its_address() {
        let options = RedisOptions::new("redis-quorum://u:p@A,b:1,[::1]/2?protocol=resp3");
        let named = voters(&options).expect("three");
        let named: Vec<_> = named.iter().map(|voter| &*voter.address).collect();
        assert_eq!(named, ["a:6379", "b:1", "[::1]:6379"]);
    }

    #[test]
    fn a_set_that_cannot_be_used_is_refused_with_what_to_do() {
        for (url, says) in [
            ("redis-quorum://a", "three servers or five"),
            ("redis-quorum://a,b", "three servers or five"),
            ("redis-quorum://a,b,c,d", "remove one"),
            ("redis-quorum://a,b,A:6379", "a:6379 is named twice"),
            ("redis-quorum://a,,c", "is not of the form"),
            ("redis-quorum:a,b,c", "is not of the form"),
            ("redis-quorum://a,b,c/x", "is not of the form"),
        ] {
            let text = refusal(url);
            assert!(text.contains(says), "{url}: {text}");
        }
        assert!(!refusal("redis-quorum://u:secret@a,b").contains("secret"));
    }
}
