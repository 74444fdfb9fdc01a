//! C24, C25: fences in Postgres.

use leasehold::postgres::PostgresBackend;
use leasehold::{Fence, FenceError, FencingToken, LockClient};
use lock_testkit::PostgresServer;
use sqlx::{Connection, Executor, PgConnection};

use crate::server::shared;
use crate::support::{check_remembers_nothing, fresh_name, patient};

async fn connection() -> PgConnection {
    PgConnection::connect(&shared().await.url()).await.expect("a connection")
}

/// Returns an older and a newer token of one lock.
async fn two_tokens(lock: &PostgresBackend) -> (FencingToken, FencingToken) {
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let old = locks.acquire(patient(&name)).await.expect("a free lock");
    locks.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    let new = locks.acquire(patient(&name)).await.expect("it is free");
    (old.token(), new.token())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_stale_holders_whole_transaction_fails() {
    let lock = PostgresBackend::connect(&shared().await.url()).await.expect("a connection");
    let (table, mut connection) = (fresh_name(), connection().await);
    let (stale, newest) = two_tokens(&lock).await;
    let fence = lock.fence(&table);
    let sql = |text: &str| sqlx::AssertSqlSafe(text.replace("@", &format!("\"{table}\"")));
    connection.execute(sql("CREATE TABLE @ (n int)")).await.expect("made");
    connection.execute(sql("INSERT INTO @ VALUES (1)")).await.expect("written");

    let mut transaction = connection.begin().await.expect("begun");
    fence.advance_in(&mut transaction, newest).await.expect("the newest");
    fence.advance_in(&mut transaction, newest).await.expect("again");
    transaction.execute(sql("UPDATE @ SET n = 2")).await.expect("written");
    transaction.commit().await.expect("committed");

    let mut transaction = connection.begin().await.expect("begun");
    // A transaction that writes first, and ignores the refusal, changes nothing either.
    transaction.execute(sql("UPDATE @ SET n = 99")).await.expect("written");
    let refused = fence.advance_in(&mut transaction, stale).await;
    let Err(FenceError::Stale { token, seen }) = refused else { panic!("{refused:?}") };
    assert_eq!((token, seen), (stale, newest));
    assert!(transaction.execute(sql("UPDATE @ SET n = 98")).await.is_err());
    let _ = transaction.commit().await;
    assert_eq!(shared().await.psql(&format!("SELECT n FROM \"{table}\"")), "2");
    assert!(matches!(fence.advance(stale).await, Err(FenceError::Stale { .. })));
    fence.advance(newest).await.expect("the newest");
    check_remembers_nothing(&lock.fence(fresh_name())).await;
}

/// Others do not see a mark that is rolled back, and wait for one that is not yet committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_the_mark_belongs_to_the_transaction() {
    let lock = PostgresBackend::connect(&shared().await.url()).await.expect("a connection");
    let (stale, newest) = two_tokens(&lock).await;
    let (fence, mut connection) = (lock.fence(fresh_name()), connection().await);
    let mut transaction = connection.begin().await.expect("begun");
    fence.advance_in(&mut transaction, newest).await.expect("the newest");
    let blocked = tokio::spawn({
        let fence = fence.clone();
        async move { fence.advance(stale).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!blocked.is_finished(), "it passed a fence that another transaction is in");
    transaction.rollback().await.expect("rolled back");
    blocked.await.expect("no panic").expect("the newest that is committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c02_a_resource_is_data() {
    let lock = PostgresBackend::connect(&shared().await.url()).await.expect("a connection");
    let (stale, newest) = two_tokens(&lock).await;
    let tag = fresh_name();
    for odd in ["'", "\"; DROP TABLE x; --", "\\", "%", "ü🔒", "$1"] {
        let (fence, other) =
            (lock.fence(format!("{tag}{odd}")), lock.fence(format!("{tag}x{odd}")));
        fence.advance(newest).await.expect("the newest");
        assert!(matches!(fence.advance(stale).await, Err(FenceError::Stale { .. })), "{odd}");
        other.advance(stale).await.expect("another resource");
    }
}

/// C24: the fence that the page shows for programs in other languages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_the_fence_by_sql_changes_no_row_for_a_stale_token() {
    let page = include_str!("../../docs/fencing.md");
    let section = page.split_once("## A fence by SQL").expect("the section").1;
    let mut blocks = section.split("```sql\n").skip(1);
    let mut block = || blocks.next().and_then(|text| text.split("```").next()).expect("a block");
    let server = PostgresServer::start().await;
    server.psql(block());
    let advance = block().trim().trim_end_matches(';');
    let changed = |token: &str| {
        let advance = advance.replace("1795251431457012", token);
        server.psql(&format!("WITH a AS ({advance} RETURNING 1) SELECT count(*) FROM a"))
    };
    for (token, rows) in [("34", "1"), ("33", "0"), ("34", "1"), ("35", "1"), ("34", "0")] {
        assert_eq!(changed(token).trim(), rows, "{token}");
    }
    assert_eq!(server.psql("SELECT token FROM fences").trim(), "35");
}

/// C15: a name beyond what the server's index takes is refused as what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_resource_with_a_long_name_is_refused_by_name() {
    let (server, token) = (shared().await, FencingToken::new(1).expect("a token"));
    let lock = PostgresBackend::connect(&server.url()).await.expect("a connection");
    let long: String = (0..300).map(|_| fresh_name()).collect();
    let FenceError::Backend(refused) = lock.fence(long).advance(token).await.expect_err("too long")
    else {
        panic!("no token was seen");
    };
    assert!(!refused.is_transient() && refused.to_string().contains("too long"), "{refused}");
}
