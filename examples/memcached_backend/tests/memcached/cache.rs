//! Losses that a cache has and a store does not, and their messages.

use std::time::Duration;

use lock_core::backend::{Attempt, Record, Recording, RecordsRuns};
use lock_core::{
    DistributedLock, Finding, Health, Lease, LockAdmin, LockClient, LockError, LockRequest,
    Occurrence,
};
use lock_testkit::eventually;
use memcached_backend::MemcachedBackend;

use crate::server::{LIMIT, Memcached};

async fn backend(server: &Memcached) -> MemcachedBackend {
    MemcachedBackend::connect(&server.url()).await.expect("a connection")
}

async fn client(server: &Memcached) -> LockClient {
    LockClient::new(backend(server).await)
}

/// Waits for the next second of the server's clock.
async fn next_second(server: &Memcached) {
    let time = async || server.stat("time").await;
    let before = time().await;
    eventually("a second passes", LIMIT, async || time().await != before).await;
}

/// C22: if the cache forgets a lock, two hold it. The second has the greater token, and the first learns of its
/// loss at its renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_tokens_grow_through_the_loss_of_an_item() {
    let server = Memcached::start(&[]).await;
    let (one, other) = (client(&server).await, client(&server).await);
    let request = || LockRequest::new("a").ttl(LIMIT);
    let mut lost = one.acquire(request()).await.expect("a free lock");
    for _ in 0..3 {
        next_second(&server).await;
        assert_eq!(server.say("flush_all").await, "OK");
        let next = other.acquire(request()).await.expect("nobody is remembered");
        assert!(next.token() > lost.token(), "{} after {}", next.token(), lost.token());
        assert!(lost.extend(LIMIT).await.is_err_and(|error| error.is_lost()));
        lost = next;
    }
}

async fn finding(server: &Memcached, check: &str) -> Finding {
    let findings = backend(server).await.doctor("").await.expect("an answer");
    findings.into_iter().find(|finding| finding.check == check).expect("a finding")
}

/// C31: the doctor reports evictions of a full server, the clock, and that nothing is on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_doctor_sees_what_endangers_locks() {
    let (evicts, refuses) = (Memcached::start(&[]).await, Memcached::start(&["-M"]).await);
    assert_eq!(finding(&evicts, "eviction").await.health, Health::Risk);
    assert_eq!(finding(&refuses, "eviction").await.health, Health::Good);
    assert_eq!(finding(&refuses, "clock").await.health, Health::Good);
    assert_eq!(finding(&refuses, "persistence").await.health, Health::Risk);
}

/// Returns the key of the lock "a" on a new server.
async fn key_of_a(server: &Memcached) -> String {
    let client = client(server).await;
    drop(client.acquire("a").await.expect("a free lock"));
    client.shutdown().await;
    let dump = server.say("lru_crawler metadump all").await;
    let key = dump.strip_prefix("key=").and_then(|line| line.split(' ').next());
    key.expect("a key").to_owned()
}

/// S3: a lock whose register is too long for an item is refused more records, and keeps its hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_register_that_grows_too_long_loses_no_hold() {
    let server = Memcached::start(&[]).await;
    let key = key_of_a(&server).await;
    let now: u64 = server.stat("time").await.parse().expect("a time");
    let until = format!(r#"{{"secs":{},"nanos":0}}"#, now + 86_400);
    let run = |number| format!(r#"{{"occurrence":"{number:0500}","token":1,"until":{until}}}"#);
    let runs = (0..1_750).map(run).collect::<Vec<_>>().join(",");
    let value = format!(
        r#"{{"kept_until":{},"register":{{"format":1,"name":"a","lock":"1","withdrawn":[],"runs":[{runs}]}}}}"#,
        now + 1000
    );
    let put = format!("ms {key} {} T1000\r\n{value}\r\nmn", value.len());
    assert!(server.say(&put).await.starts_with("HD"));
    let backend = backend(&server).await;
    // Nobody renews the hold, and a busy machine takes a while for hundreds of records.
    let request = LockRequest::new("a").ttl(LIMIT * 20);
    let [claim, other] = [(); 2].map(|()| request.clone().claim().expect("a claim"));
    let Ok(Attempt::Granted(grant)) = backend.acquire(&claim, None).await else {
        panic!("nobody holds it");
    };
    let lease = format!("lease1:{}:{}:600000:a", claim.owner.expose(), grant.token);
    let lease = Lease::import(&lease).expect("a lease");
    let mut numbers = 0..500;
    let refused = loop {
        let number = numbers.next().expect("an item is at most a megabyte");
        let occurrence = Occurrence::new(format!("{number:0512}")).expect("an occurrence");
        let record = Record::new(&lease, occurrence, Duration::from_secs(86_400));
        match backend.record(&record.expect("a record")).await {
            Ok(recorded) => assert_eq!(recorded, Recording::Recorded),
            Err(error) => break error,
        }
    };
    assert!(!refused.is_transient() && refused.to_string().contains("forget"), "{refused}");
    let other = backend.acquire(&other, None).await;
    assert!(matches!(other, Ok(Attempt::Busy(_))), "{other:?}");
}

/// C49: an item with the key of a lock and other content is reported at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_an_item_that_is_no_register_is_told_of() {
    let server = Memcached::start(&[]).await;
    let key = key_of_a(&server).await;
    let put = async |value: &str, ttl: u32| {
        let item = format!("ms {key} {} T{ttl}\r\n{value}\r\nmn", value.len());
        assert!(server.say(&item).await.starts_with("HD"));
    };
    let client = LockClient::new(backend(&server).await);
    // No register, and registers of later formats.
    for value in [
        "abc",
        r#"{"kept_until":9999999999,"register":{"format":1,"name":"a","lock":"1","withdrawn":[],"runs":[],"shared":[1]}}"#,
        r#"{"kept_until":9999999999,"register":{"format":2,"name":"a","lock":"1","withdrawn":[],"runs":[]}}"#,
        r#"{"kept_until":9999999999,"readers":1,"register":{"format":1,"name":"a","lock":"1","withdrawn":[],"runs":[]}}"#,
    ] {
        put(value, 1000).await;
        let listed = client.admin().list("", 9).await.map(drop);
        for refused in
            [client.acquire("a").await.map(drop), client.admin().inspect("a").await.map(drop)]
        {
            let refused = refused.expect_err("it is no lock of ours");
            assert!(matches!(refused, LockError::NotALock { .. }), "{refused}");
            let text = refused.to_string();
            assert!(text.contains(&key) && text.contains("delete the item"), "{text}");
        }
        assert!(listed.is_err(), "{value}");
        let kept = server.say(&format!("mg {key} s\r\nmn")).await;
        assert_eq!(kept, format!("HD s{}\r\nMN", value.len()), "it was overwritten");
    }
}

/// Without compare-and-swap no change is safe, so none is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_compare_and_swap_is_refused() {
    let server = Memcached::start(&["-C"]).await;
    let (claim, backend) =
        (LockRequest::new("a").claim().expect("a claim"), backend(&server).await);
    // The first request only adds.
    backend.acquire(&claim, None).await.expect("an answer");
    let refused =
        backend.release(&claim.name, claim.owner).await.expect_err("it cannot be changed");
    assert!(!refused.is_transient() && refused.to_string().contains("-C"), "{refused}");
}
