//! Standbys, and clients during a failover.

use leasehold::LockError;
use lock_testkit::{PostgresServer, eventually};

use crate::server::{number, sessions};
use crate::support::{
    LIMIT, acquiring, client, fresh_name, held, patient, refused_for_sure, released, served,
};

/// Starts a server and its standby, which knows that `name` is held.
async fn pair(name: &str) -> (PostgresServer, PostgresServer) {
    let server = PostgresServer::start().await;
    let guard = held(&client(&server.url()).await, name).await;
    let _ = guard.detach().expect("held");
    let standby = server.standby().await;
    let known = format!("SELECT count(*) FROM leasehold.locks_grants WHERE name = '{name}'");
    eventually("the standby follows", LIMIT, async || number(&standby, &known) == 1).await;
    (server, standby)
}

/// A waiter at a standby keeps waiting until the failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_waiter_on_a_standby_lives_until_the_failover() {
    let name = fresh_name();
    let (mut server, standby) = pair(&name).await;
    let waiter = client(&standby.url()).await;
    let waiting = acquiring(&waiter, patient(&name));
    eventually("it is refused", LIMIT, async || {
        standby.log().contains("in a read-only transaction")
    })
    .await;
    server.kill();
    standby.psql("SELECT pg_promote()");
    standby.psql("UPDATE leasehold.locks_grants SET owner = NULL");
    released(served(waiting).await).await;
}

/// C15: the connection is not kept, since a new one may lead to the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_standby_is_a_passing_failure_and_its_connection_is_given_up() {
    let name = fresh_name();
    let (_server, standby) = pair(&name).await;
    let client = client(&standby.url()).await;
    let acquired = refused_for_sure(&client, &fresh_name()).await;
    let inspected = client.admin().inspect(&name).await;
    let Err(LockError::Backend { source: inspected, .. }) = inspected else {
        panic!("{inspected:?}");
    };
    for source in [inspected, acquired] {
        assert!(source.is_transient(), "{source:?}");
        assert!(source.to_string().contains("standby"), "{source}");
        eventually("it is closed", LIMIT, async || sessions(&standby) == 0).await;
    }
}

/// P1: the standby lacks a hold. Two believe then, as documented, and the second has the greater token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_tokens_grow_though_an_asynchronous_standby_lacks_a_hold() {
    let (mut server, standby) = pair(&fresh_name()).await;
    standby.psql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.psql("SELECT pg_reload_conf()");
    let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
    eventually("it follows no more", LIMIT, async || number(&standby, receivers) == 0).await;
    let name = fresh_name();
    let before = held(&client(&server.url()).await, &name).await;
    server.kill();
    standby.psql("SELECT pg_promote()");
    let after = held(&client(&standby.url()).await, &name).await;
    assert!(before.is_held() && before.token() < after.token());
}
