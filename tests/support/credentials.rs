//! Credentials that change while a client works.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::core::backend::async_trait;
use leasehold::{BoxError, CredentialProvider, Credentials, LockClient, LockError};
use lock_testkit::eventually;
use tokio::sync::Mutex;

use super::{LIMIT, fresh_name, patient, queued, released, served};

/// User of the tests, whose secrets change.
pub(crate) const APP: &str = "app";

const TTL: Duration = Duration::from_secs(5);
const EXPIRIES: usize = 20;

/// A provider of the credentials that a test puts into it. The last ones stay.
#[derive(Clone, Default)]
pub(crate) struct Vault(Arc<(Mutex<VecDeque<Credentials>>, AtomicUsize)>);

impl Vault {
    /// Returns a vault with the secret of [`APP`].
    pub(crate) fn of(secret: &str) -> Self {
        Self(Arc::new((Mutex::new(credentials(&[secret])), AtomicUsize::default())))
    }

    /// Gives out these secrets in turn, once `change` has been made. Questions wait meanwhile.
    pub(crate) async fn put(&self, secrets: &[&str], change: impl Future<Output = ()>) {
        let mut given = self.0.0.lock().await;
        change.await;
        *given = credentials(secrets);
    }

    /// Returns the number of questions so far.
    pub(crate) fn asked(&self) -> usize {
        self.0.1.load(Ordering::Relaxed)
    }
}

fn credentials(secrets: &[&str]) -> VecDeque<Credentials> {
    secrets.iter().map(|secret| Credentials::new(APP, *secret)).collect()
}

#[async_trait]
impl CredentialProvider for Vault {
    async fn credentials(&self) -> Result<Credentials, BoxError> {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        let mut given = self.0.0.lock().await;
        let next = if given.len() > 1 { given.pop_front() } else { given.front().cloned() };
        next.ok_or_else(|| "the vault is empty".into())
    }

    async fn at_sentinels(&self) -> Result<Credentials, BoxError> {
        self.credentials().await
    }
}

/// Asserts that a hold and a waiter outlive expiries of the client's secret. `expire` makes a new secret the only good one,
/// and ends the connections that were made with the former one.
///
/// In every other round the provider first gives the former secret, as if it was asked just before the change.
pub(crate) async fn holds_outlive_expiries(
    client: &LockClient,
    vault: &Vault,
    expire: impl AsyncFn(&str),
) {
    let name = fresh_name();
    let guard = client.acquire(patient(&name).ttl(TTL)).await.expect("a free lock");
    let waiting = queued(client, client, patient(&name), &name).await;
    let (asked, mut former) = (vault.asked(), "none".to_owned());
    for round in 0..EXPIRIES {
        let secret = format!("secret-{round}");
        match round % 2 {
            0 => vault.put(&[&secret], expire(&secret)).await,
            _ => vault.put(&[&former, &secret], expire(&secret)).await,
        }
        eventually("it is extended", LIMIT, async || match guard.extend(TTL).await {
            Ok(_) => true,
            Err(LockError::Backend { source, .. }) if source.is_transient() => false,
            Err(error) => panic!("round {round}: {error}"),
        })
        .await;
        former = secret;
    }
    assert!(vault.asked() >= asked + EXPIRIES, "{} questions", vault.asked() - asked);
    released(guard).await;
    released(served(waiting).await).await;
}

/// Asserts that a provider without credentials is a passing failure that names it, and that a secret that the server
/// refuses twice is a lasting one.
pub(crate) async fn refusals_are_told_apart<F>(connect: impl Fn(Vault) -> F)
where
    F: Future<Output = Result<LockClient, LockError>>,
{
    let failed = connect(Vault::default()).await.expect_err("there are none");
    assert!(failed.is_transient(), "{failed}");
    assert!(super::shown(&failed).contains("no credentials: the vault is empty"), "{failed}");
    for (secrets, questions) in [(&["wrong"][..], 2), (&["wrong", "worse"], 2)] {
        let vault = Vault::default();
        vault.put(secrets, async {}).await;
        let refused = connect(vault.clone()).await.expect_err("the secret is wrong");
        let text = super::shown(&refused);
        assert!(!refused.is_transient() && text.contains("password"), "{text}");
        assert!(!text.contains("wrong") && !text.contains("worse"), "{text}");
        assert!(vault.asked() >= questions, "{} questions", vault.asked());
    }
}

/// Makes `secret` the only one of [`APP`] on a Redis server, and ends the connections of that user.
pub(crate) fn expire_on_redis(server: &lock_testkit::RedisServer, secret: &str) {
    let secret = format!(">{secret}");
    let rights = ["reset", "on", &secret, "~*", "&*", "+@all"];
    server.cli(&[&["ACL", "SETUSER", APP], &rights[..]].concat());
    server.cli(&["CLIENT", "KILL", "USER", APP]);
}
