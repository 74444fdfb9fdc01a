//! What the protocol costs, and what it leaves behind.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::LockClient;
use test_support::{PostgresServer, eventually};
use tokio::time::timeout;

use crate::{LIMIT, client, fresh_name, patient};

fn number(server: &PostgresServer, sql: &str) -> u64 {
    server.psql(sql).parse().expect("a number")
}

/// The sessions of clients, that of the question apart.
fn sessions(server: &PostgresServer) -> u64 {
    number(
        server,
        "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'",
    )
}

/// The transactions so far that the server counted; it counts them with some delay.
fn transactions(server: &PostgresServer) -> u64 {
    server.psql("SELECT pg_stat_force_next_flush()");
    number(
        server,
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'",
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_and_release_are_one_transaction_each_on_one_connection() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let cycle = async |name: &str| {
        client.acquire(patient(name)).await.expect("free").release().await.expect("an answer");
    };
    cycle("first").await;
    assert_eq!(sessions(&server), 1);
    let before = transactions(&server);
    for _ in 0..100 {
        cycle("again").await;
    }
    assert_eq!(sessions(&server), 1);
    drop(client);
    // A session tells its count when it ends.
    eventually("the transactions are counted", LIMIT, async || {
        transactions(&server) - before >= 200
    })
    .await;
    // Ours, and those of the questions above and of the server itself.
    let asked = transactions(&server) - before;
    assert!(asked < 300, "{asked} transactions for 100 cycles");
}

/// C26: one listening session, however many locks a client waits for, and few for requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c26_a_client_has_one_listening_session() {
    let server = PostgresServer::start().await;
    let (holder, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let names: Vec<String> = (0..50).map(|_| fresh_name()).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(holder.acquire(patient(name)).await.expect("a free lock"));
    }
    let waiting = names.iter().map(async |name| {
        waiter.acquire(patient(name)).await.expect("its turn comes").release().await
    });
    let release = async {
        for name in &names {
            eventually("it queues", LIMIT, async || {
                holder.inspect(name).await.expect("an answer").waiters == Some(1)
            })
            .await;
        }
        assert_eq!(number(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 1);
        assert!(sessions(&server) <= 2 * 8 + 1, "{} sessions", sessions(&server));
        for guard in guards {
            guard.release().await.expect("an answer");
        }
    };
    tokio::join!(join_all(waiting), release);
}

/// R1, C19, C21: after hundreds of acquisitions that were dropped at any point nothing is left: no
/// hold, no place in a queue, no advisory lock, and no connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_nothing_is_left_behind() {
    let server = PostgresServer::start().await;
    let work = async |client: &LockClient, i: u64| {
        let name = format!("leak-{}", i % 20);
        let limit = Duration::from_micros(i * 41 % 9000);
        let _ = timeout(limit, client.acquire(patient(&name))).await;
        drop(client.acquire(patient(&name)).await.expect("its turn comes"));
    };
    for _ in 0..2 {
        let client = client(&server.url()).await;
        join_all((0..300).map(|i| work(&client, i))).await;
        client.shutdown().await;
    }
    let left = "SELECT (SELECT count(*) FROM leasehold.locks WHERE owner IS NOT NULL) \
        + (SELECT count(*) FROM leasehold.locks_queue)";
    assert_eq!(number(&server, left), 0);
    eventually("the connections are closed", LIMIT, async || sessions(&server) == 0).await;
    assert_eq!(number(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
    // Marks of withdrawn claims are taken away by later ones.
    server.psql("UPDATE leasehold.locks_withdrawn SET forget_at = now()");
    let client = client(&server.url()).await;
    let old = "SELECT count(*) FROM leasehold.locks_withdrawn WHERE forget_at < clock_timestamp()";
    let guard = client.acquire(patient("x")).await.expect("a free lock");
    eventually("the marks are gone", LIMIT, async || {
        let _ = timeout(Duration::from_millis(1), client.acquire(patient("x"))).await;
        number(&server, old) == 0
    })
    .await;
    guard.release().await.expect("an answer");
}

/// C26, R4: a client with thousands of holds renews them in few transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_thousand_holds_are_renewed() {
    let server = PostgresServer::start().await;
    let client = client(&server.url()).await;
    let ttl = Duration::from_secs(6);
    let acquiring = (0..1000).map(|i| client.acquire(patient(&format!("many-{i}")).ttl(ttl)));
    let guards = join_all(acquiring).await;
    let guards: Vec<_> = guards.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let first: Vec<_> = guards.iter().map(|guard| guard.deadline()).collect();
    eventually("all are renewed", LIMIT, async || {
        guards.iter().zip(&first).all(|(guard, first)| guard.deadline() != *first)
    })
    .await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    client.shutdown().await;
}
