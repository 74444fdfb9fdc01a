//! Waiters of a held lock that died in the queue.

use lock_testkit::{PgBouncer, PostgresServer, eventually};

use crate::server::{number, shared};
use crate::support::{LIMIT, client, fresh_name, held, patient, queued, released, served, turn};

/// Adds waiters that died a minute ago.
fn bury(server: &PostgresServer, name: &str, count: u32) {
    server.psql(&format!(
        "INSERT INTO leasehold.locks_queue (owner, name, ttl_ms, label, seen_at) \
         SELECT gen_random_uuid(), '{name}', 1000, '', now() - interval '1 minute' \
         FROM generate_series(1, {count})"
    ));
}

/// C28: a waiter is told how many living waiters are before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_dead_waiters_do_not_count_as_waiters() {
    let (server, name) = (shared().await, fresh_name());
    let guard = held(&client(&server.url()).await, &name).await;
    bury(server, &name, 5);
    for ahead in ["0", "1"] {
        let queues = format!(
            "SELECT ahead FROM leasehold.locks_v1_acquire('{name}', gen_random_uuid(), 60000, '', \
             NULL, 0, true, NULL, 9007199254740991)"
        );
        assert_eq!(server.psql(&queues), ahead);
    }
    server.psql(&format!("DELETE FROM leasehold.locks_queue WHERE name = '{name}'"));
    released(guard).await;
}

/// C28: a hand-over to a waiter behind a crowd of dead ones takes less time than the server gives a request, and later ones
/// remove the rest of the crowd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_crowd_of_dead_waiters_keeps_nobody_out() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    // Behind a pooler the server undoes a release that takes two seconds.
    let pooler = PgBouncer::start(&server).await;
    let (holder, waiter) = (client(&pooler.url()).await, client(&pooler.url()).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    bury(&server, &name, 60_000);
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    released(guard).await;
    released(served(waiting).await).await;
    eventually("the dead are gone", LIMIT, async || {
        turn(&holder, &name).await;
        number(&server, "SELECT count(*) FROM leasehold.locks_queue") == 0
    })
    .await;
}
