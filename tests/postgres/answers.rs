//! Answers in place of errors of the server, which it would log, and which would end other requests too.

use leasehold::core::backend::Renewal;
use leasehold::core::{OwnerId, Ttl};
use leasehold::postgres::PostgresBackend;
use leasehold::{DistributedLock, LockError, Outcome, Wait};
use lock_testkit::{LeaseExt, PostgresServer};
use sqlx::{Connection, PgConnection};

use crate::support::{MINUTE, client, fresh_name, held, patient, released, turn};

/// C19: a request that comes too late is an answer, and no error in the server's log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_late_request_of_a_withdrawn_claim_writes_no_error() {
    let server = PostgresServer::start().await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let claim = patient(&fresh_name()).claim().expect("a good claim");
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("an answer");
    let refused = lock.acquire(&claim, None).await.expect_err("it comes too late");
    assert!(!refused.is_transient() && refused.outcome() == Outcome::NotApplied, "{refused}");
    assert!(refused.to_string().contains("withdrawn"), "{refused}");
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

/// C12: a row that somebody else keeps locked ends no other hold of the same request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_row_that_others_lock_delays_no_other_renewal() {
    let server = PostgresServer::start().await;
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let requests =
        [patient(&fresh_name()), patient(&fresh_name()), patient(&fresh_name()).shared()];
    let (mut leases, ttl) = (Vec::new(), Ttl::new(MINUTE).expect("a good TTL"));
    for request in requests {
        leases.push(lock.acquire_lease(&request).await.expect("a free lock"));
    }
    let renewals = || leases.iter().map(|lease| Renewal::new(lease, ttl)).collect::<Vec<_>>();
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    for (table, busy) in [("locks_grants", 1), ("locks_holders", 2)] {
        let mut jam = stranger.begin().await.expect("begun");
        let sql = format!("SELECT FROM leasehold.{table} WHERE name = $1 FOR UPDATE");
        let sql = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(leases[busy].name().as_str());
        sql.execute(&mut *jam).await.expect("locked");
        let answers = lock.extend(&renewals()).await;
        for (at, answer) in answers.iter().enumerate() {
            assert_eq!(answer.is_ok(), at != busy, "{table}, {at}: {answer:?}");
        }
        let error = answers[busy].as_ref().expect_err("its row is locked");
        assert!(error.is_transient() && error.outcome() == Outcome::NotApplied, "{error}");
        jam.rollback().await.expect("unlocked");
        assert!(lock.extend(&renewals()).await.iter().all(Result::is_ok));
    }
    let mut unknown = renewals();
    unknown[0].owner = OwnerId::random();
    assert!(lock.extend(&unknown).await.iter().all(Result::is_ok), "lost is an answer");
}

/// C49: a name that no client of locks can have written hides no other lock, and is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_name_that_is_none_hides_no_lock() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let guard = held(&client, "b").await;
    server.psql(
        "INSERT INTO leasehold.locks_grants (name, token, owner, expires_at) \
         VALUES (E'a\\nb', 1, gen_random_uuid(), now() + interval '1 hour')",
    );
    let listed = client.admin().list("", 10).await;
    let Err(LockError::Incomplete { held, source }) = listed else { panic!("{listed:?}") };
    assert_eq!(held.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(source.to_string().contains(r#""a\nb""#), "{source}");
    released(guard).await;
}

/// C49: a hold that somebody else has written without an end keeps its lock busy, and is listed and evicted as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_hold_without_an_end_is_busy_listed_and_evicted() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    server.psql(
        "INSERT INTO leasehold.locks VALUES ('a'); \
         INSERT INTO leasehold.locks_grants (name, token, owner, expires_at) \
         VALUES ('a', 1, gen_random_uuid(), 'infinity')",
    );
    let busy = client.acquire(patient("a").wait(Wait::Never)).await;
    let Err(LockError::NotAcquired { contention, .. }) = busy else { panic!("{busy:?}") };
    assert_eq!(contention.ttl_left, None);
    let listed = client.admin().list("", 10).await.expect("an answer");
    let evicted = client.admin().evict("a").await.expect("an answer");
    for holders in [&listed[0].holders, &evicted] {
        assert_eq!(holders.iter().map(|holder| holder.ttl_left).collect::<Vec<_>>(), [None]);
    }
    turn(&client, "a").await;
}
