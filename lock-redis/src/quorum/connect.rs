//! How the servers of a set are named by one URL, and connected.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::LockError;
use lock_core::backend::UrlParameters;

use super::backend::QuorumBackend;
use super::majority::{have_answered, too_few};
use super::membership;
use super::round::Round;
use super::voter::Voter;
use crate::options::RedisOptions;

/// How long a server may take for its first answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// The port of a server whose URL names none.
const PORT: &str = ":6379";

impl QuorumBackend {
    /// Connects to the servers of `redis-quorum://[user:password@]host[:port],host[:port],host[:port][/database]`,
    /// and makes sure that a majority of them answers.
    ///
    /// All have the same user, password and database. `?protocol=resp3` is known as for one server. The first
    /// client of a new set needs all of them to answer once.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used: an even number of servers, fewer than three, or the
    ///   same one twice. The text does not repeat the URL, since it may hold a password.
    /// - [`LockError::Backend`] if no majority can be reached, or one refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let mut voters = Vec::new();
        for (address, url) in servers(url)? {
            voters.push(Arc::new(Voter::new(address, RedisOptions::new(url).client()?)));
        }
        let tell = |voter: Arc<Voter>| async move { voter.tell_within(CONNECT_LIMIT).await };
        let mut told = Round::ask(&voters, tell);
        let answers = told.all().await;
        if !have_answered(answers) {
            let source = too_few(answers);
            return Err(LockError::Backend { operation: "connect", name: None, source });
        }
        refuse_twins(&voters)?;
        membership::begin(&voters, answers).await;
        Ok(Self::new(voters))
    }
}

/// Address and URL of each server that `url` names.
fn servers(url: &str) -> Result<Vec<(String, String)>, LockError> {
    let parameters = UrlParameters::of(url);
    let base = parameters.base();
    let query = parameters.url().split_off(base.len());
    let rest = base.split_once("://").map(|(_, rest)| rest).ok_or_else(malformed)?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let addresses: Vec<String> = hosts.split(',').map(with_port).collect();
    refuse_bad_number(&addresses)?;
    let server = |address: String| {
        let url = format!("redis://{user}{address}{path}{query}");
        (address, url)
    };
    Ok(addresses.into_iter().map(server).collect())
}

fn with_port(host: &str) -> String {
    let host = host.trim().to_ascii_lowercase();
    let port = host.rsplit(']').next().unwrap_or_default();
    match port.contains(':') {
        true => host,
        false => host + PORT,
    }
}

/// A majority of an even number bears no more losses than one of a server less, and one of two bears none.
fn refuse_bad_number(addresses: &[String]) -> Result<(), LockError> {
    if addresses.iter().any(|address| address.starts_with(':')) {
        return Err(malformed());
    }
    let mut seen = HashMap::new();
    if let Some(twice) = addresses.iter().find(|address| seen.insert(*address, ()).is_some()) {
        return Err(unusable(format!("{twice} is named twice: name each server once")));
    }
    match addresses.len() {
        one_or_two @ ..3 => Err(unusable(format!(
            "it names {one_or_two}, whose majority bears no loss: name three servers or five, or use \
             redis:// with one"
        ))),
        even if even % 2 == 0 => Err(unusable(format!(
            "it names {even}, which bear no more losses than {}: leave one out, or add one",
            even - 1
        ))),
        _ => Ok(()),
    }
}

/// Two addresses of one server would vote twice.
fn refuse_twins(voters: &[Arc<Voter>]) -> Result<(), LockError> {
    let mut seen = HashMap::new();
    for voter in voters {
        if let Some(run) = voter.known_run()
            && let Some(twin) = seen.insert(run, &voter.address)
        {
            let (twin, this) = (twin, &voter.address);
            return Err(unusable(format!(
                "{twin} and {this} are the same server: a server has one vote, so name each once"
            )));
        }
    }
    Ok(())
}

fn malformed() -> LockError {
    unusable(
        "it is not of the form redis-quorum://[user:password@]host[:port],host[:port],host[:port]\
         [/database]"
            .to_owned(),
    )
}

fn unusable(reason: String) -> LockError {
    LockError::Config { message: format!("the URL of the quorum cannot be used: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        servers(url).expect_err(url).to_string()
    }

    #[test]
    fn each_server_has_user_database_and_parameters() {
        let named = servers("redis-quorum://u:p@a,b:1,[::1]/2?protocol=resp3").expect("three");
        let expected = [
            ("a:6379", "redis://u:p@a:6379/2?protocol=resp3"),
            ("b:1", "redis://u:p@b:1/2?protocol=resp3"),
            ("[::1]:6379", "redis://u:p@[::1]:6379/2?protocol=resp3"),
        ];
        let named: Vec<_> = named.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(named, expected);
    }

    #[test]
    fn a_set_that_cannot_be_used_is_refused_with_what_to_do() {
        for (url, says) in [
            ("redis-quorum://a", "name three servers or five"),
            ("redis-quorum://a,b", "name three servers or five"),
            ("redis-quorum://a,b,c,d", "leave one out"),
            ("redis-quorum://a,b,A:6379", "a:6379 is named twice"),
            ("redis-quorum://a,,c", "is not of the form"),
            ("redis-quorum:a,b,c", "is not of the form"),
        ] {
            let text = refusal(url);
            assert!(text.contains(says), "{url}: {text}");
        }
        assert!(!refusal("redis-quorum://u:secret@a,b").contains("secret"));
    }
}
