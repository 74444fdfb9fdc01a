//! Tests of `connect`: the backend of each URL, and the errors for bad URLs.

#![allow(clippy::expect_used, clippy::panic)]

use std::time::Duration;

use leasehold::{LockClient, LockError, LockRequest, connect};
use lock_testkit::eventually;

async fn refusal(url: &str) -> String {
    match connect(url).await {
        Err(error @ LockError::Config { .. }) => error.to_string(),
        other => panic!("{url:?}: {other:?}"),
    }
}

#[tokio::test]
async fn each_scheme_chooses_its_backend() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("file:{}/a%20b", folder.path().display());
    for (url, backend) in [("memory:", "memory"), ("memory:x", "memory"), (&*file, "file")] {
        let client = connect(url).await.expect(url);
        assert_eq!(client.capabilities().backend, backend);
        let guard = client.acquire("a").await.expect("a free lock");
        guard.release().await.expect("an answer");
    }
    assert!(folder.path().join("a b").is_dir(), "a URL is percent-decoded");
    let whole = format!("file://{}/c?filesystem=local", folder.path().display());
    connect(&whole).await.expect("a file URL with an empty host");
}

#[tokio::test]
async fn stores_in_memory_are_shared_by_name() {
    let (one, two) = (connect("memory:shared").await, connect("memory:shared").await);
    let (one, two) = (one.expect("a client"), two.expect("a client"));
    let guard = one.acquire("a").await.expect("a free lock");
    assert!(two.try_acquire("a").await.expect("an answer").is_none());
    let apart = connect("memory:").await.expect("a client");
    assert!(apart.try_acquire("a").await.expect("an answer").is_some());
    guard.release().await.expect("an answer");
}

/// R1: a store with a name lasts as long as its clients.
#[tokio::test]
async fn r1_a_store_in_memory_goes_with_its_last_client() {
    let limit = Duration::from_secs(30);
    let connect = async || connect("memory:gone").await.expect("a client");
    let (one, two) = (connect().await, connect().await);
    let long = LockRequest::new("a").ttl(limit * 100);
    let lease = one.acquire(long).await.expect("a free lock").detach().expect("it is held");
    drop(one);
    assert!(two.try_acquire(lease.name()).await.expect("an answer").is_none());
    drop(two);
    eventually("the store is gone", limit, async || {
        connect().await.try_acquire(lease.name()).await.expect("an answer").is_some()
    })
    .await;
}

#[tokio::test]
async fn a_bad_url_is_refused_with_what_to_do_and_without_its_password() {
    for (url, says) in [
        ("", "starts with its scheme"),
        ("localhost", "starts with its scheme"),
        ("consul://localhost", "no backend is called `consul`"),
        ("file:", "names a directory"),
        ("file://elsewhere/locks", "names a directory"),
        ("file:/nowhere?filesystem=nfs", "`filesystem` of a file URL must be `local`"),
        ("file:/sys/kernel", "?filesystem=local"),
    ] {
        let text = refusal(url).await;
        assert!(text.contains(says), "{url:?}: {text}");
    }
    for url in ["mysql://user:secret@localhost", "secret@localhost:6379"] {
        let text = refusal(url).await;
        assert!(!text.contains("secret"), "{text}");
    }
}

/// C49, for the backends without a server. Each other backend has a test of its own for this.
#[tokio::test]
async fn c49_a_prefix_by_url_keeps_name_spaces_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    for url in ["memory:prefixed", &format!("file:{}", folder.path().display())] {
        let behind = async |prefix: &str| connect(&format!("{url}{prefix}")).await.expect(url);
        let (shop, plain) = (behind("?prefix=shop%3A").await, behind("?prefix=").await);
        let guard = shop.acquire("a").await.expect("a free lock");
        assert!(plain.try_acquire("shop:a").await.expect("an answer").is_none(), "two holders");
        let other = plain.acquire("a").await.expect("another lock");
        let names = async |client: &LockClient| {
            let states = client.admin().list("", 9).await.expect("a listing");
            states.into_iter().map(|state| state.name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!((names(&shop).await, names(&plain).await.len()), (vec!["a".to_owned()], 2));
        guard.release().await.expect("it was held");
        other.release().await.expect("it was held");
    }
}

#[tokio::test]
async fn c49_an_unknown_parameter_is_refused_by_name_without_its_value() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("file:{}/locks", folder.path().display());
    for (url, named) in [
        ("memory:?ttl=secret", "`ttl`"),
        ("memory:a?prefix=b:&prefiks=secret", "`prefiks`"),
        ("memory:a#secret", "`#`"),
        (&*format!("{file}?mode=secret"), "`mode`"),
        (&*format!("{file}#secret"), "`#`"),
        ("memory:?prefix=secret%00", "`prefix`"),
        ("memory:?prefix=secret%ff", "`prefix`"),
        (&*format!("memory:?prefix={}", "p".repeat(512)), "`prefix`"),
    ] {
        let text = refusal(url).await;
        assert!(text.contains(named) && !text.contains("secret"), "{url:?}: {text}");
    }
    assert!(!folder.path().join("locks").exists(), "it was opened before the URL was read");
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_backend_that_is_not_compiled_in_names_its_feature() {
    for (url, feature) in [
        ("redis://localhost", "`redis`"),
        ("redis+unix:///tmp/x", "`redis`"),
        ("rediss://:secret@localhost", "`redis-rustls`"),
        ("redis-cluster://:secret@a,b", "`redis-cluster`"),
        ("rediss-sentinel://:secret@a,b/mymaster", "`redis-sentinel`"),
    ] {
        let text = refusal(url).await;
        assert!(text.contains(feature) && !text.contains("secret"), "{text}");
    }
}

#[cfg(not(feature = "etcd"))]
#[tokio::test]
async fn etcd_that_is_not_compiled_in_names_its_feature() {
    for (url, feature) in
        [("etcd://localhost", "`etcd`"), ("etcds://u:secret@localhost", "`etcd-tls`")]
    {
        let text = refusal(url).await;
        assert!(text.contains(feature) && !text.contains("secret"), "{text}");
    }
}

#[cfg(all(feature = "redis", not(feature = "redis-cluster"), not(feature = "redis-sentinel")))]
#[tokio::test]
async fn redis_without_clusters_and_sentinels_names_their_features() {
    for (url, feature) in [
        ("redis-cluster://:secret@a,b", "`redis-cluster`"),
        ("redis-sentinel://:secret@a,b/mymaster", "`redis-sentinel`"),
    ] {
        let text = refusal(url).await;
        assert!(text.contains(feature) && !text.contains("secret"), "{text}");
    }
}
