//! Simultaneous requests of a client's tasks go to the server as one transaction: each lock has its own answer.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use leasehold::core::OwnerId;
use leasehold::postgres::PostgresBackend;
use leasehold::{DistributedLock, LockRequest, Wait};
use lock_testkit::LeaseExt;
use lock_testkit::{Mode, PgBouncer, PostgresServer, Proxy};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::server::{PostgresFaults, number, shared};
use crate::support::{MINUTE, client, client_through, fresh_name, held, released};

const MANY: usize = 40;

/// Delay of a request in each direction: so all tasks ask while the first request is in flight.
const WAY: Duration = Duration::from_millis(20);

fn fresh_names() -> Vec<String> {
    (0..MANY).map(|_| fresh_name()).collect()
}

/// Returns the number of transactions that wrote the newest rows of these locks.
fn transactions(server: &PostgresServer, names: &[String]) -> usize {
    let names = names.join("','");
    let written = format!(
        "SELECT count(DISTINCT xmin::text) FROM leasehold.locks_grants WHERE name IN ('{names}')"
    );
    number(server, &written) as usize
}

/// Uses many locks at once over a slow network to the server at `addr`.
async fn use_together(server: &PostgresServer, addr: SocketAddr) {
    let proxy = Proxy::start(addr).await;
    let (client, names) = (client_through::<PostgresFaults>(&proxy).await, fresh_names());
    let mut last = held(&client, &fresh_name()).await.token();
    proxy.set(Mode::Delay(WAY));
    // On a busy machine, some may ask only after the first answer: then the round is repeated.
    let (mut rounds, mut fewest) = (0, [MANY; 2]);
    while rounds < 3 || fewest.iter().any(|transactions| *transactions >= MANY * 3 / 4) {
        rounds += 1;
        assert!(rounds < 30, "no fewer than {fewest:?} transactions");
        let guards = join_all(names.iter().map(|name| held(&client, name))).await;
        fewest[0] = fewest[0].min(transactions(server, &names));
        assert!(guards.iter().all(|guard| guard.token() > last));
        last = guards.iter().map(|guard| guard.token()).max().expect("a token");
        join_all(guards.into_iter().map(released)).await;
        fewest[1] = fewest[1].min(transactions(server, &names));
    }
}

/// C22: each lock is held on the server under a greater token than before, and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_locks_that_are_asked_for_together_are_each_held_and_given_back() {
    let server = PostgresServer::start().await;
    use_together(&server, server.addr()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_they_are_so_behind_a_pooler() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(&server).await;
    use_together(&server, pooler.addr()).await;
}

/// S3: of several batched requests for one lock, one is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s03_of_those_who_ask_for_one_lock_together_one_gets_it() {
    let lock = PostgresBackend::connect(&shared().await.url()).await.expect("a connection");
    for name in fresh_names() {
        let request = LockRequest::new(&name).ttl(MINUTE).wait(Wait::Never);
        let asked = join_all((0..8).map(|_| lock.acquire_lease(&request))).await;
        let mut leases = asked.into_iter().flatten();
        let lease = leases.next().expect("one gets it");
        assert!(leases.next().is_none(), "two hold it");
        lock.release(lease.name(), lease.owner()).await.expect("an answer");
    }
}

/// Returns a lock that was used before, on the shared server.
async fn used() -> (&'static PostgresServer, String) {
    let (server, name) = (shared().await, fresh_name());
    drop(client(&server.url()).await);
    let owner = OwnerId::random();
    call(server, &acquire(&name, owner, false));
    call(server, &format!("release('{name}','{}',{LIMIT})", owner.expose()));
    (server, name)
}

/// No limit of the clock.
const LIMIT: i64 = i64::MAX;

fn call(server: &PostgresServer, function: &str) -> String {
    server.psql(&format!("SELECT * FROM leasehold.locks_v1_{function}"))
}

fn acquire(name: &str, owner: OwnerId, queues: bool) -> String {
    format!("acquire('{name}','{}',60000,'',NULL,0,{queues},NULL,{LIMIT})", owner.expose())
}

/// Returns a call that acquires these locks, each for one of the owners.
fn acquire_together(names: &[&str], owners: &[OwnerId]) -> String {
    let (count, owners) = (names.len(), exposed(owners));
    format!(
        "acquire_together('{{{}}}', '{owners}', array_fill(60000::bigint, ARRAY[{count}]), \
         array_fill(''::text, ARRAY[{count}]), {LIMIT})",
        names.join(",")
    )
}

fn release_together(names: &[&str], owners: &[OwnerId]) -> String {
    format!("release_together('{{{}}}', '{}')", names.join(","), exposed(owners))
}

fn exposed(owners: &[OwnerId]) -> String {
    let owners: Vec<String> = owners.iter().map(OwnerId::expose).collect();
    format!("{{{}}}", owners.join(","))
}

/// Returns the parts of the call that were carried out.
fn carried_out(server: &PostgresServer, together: &str) -> Vec<i64> {
    let parts = call(server, together);
    let part = |row: &str| row.split('|').next().and_then(|part| part.parse().ok());
    parts.lines().map(|row| part(row).expect("a part")).collect()
}

/// C19: a withdrawn claim gets nothing in a batch; the other claims of the batch do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_late_request_in_company_is_refused() {
    let ((server, one), (_, other)) = (used().await, used().await);
    let owners = [OwnerId::random(), OwnerId::random()];
    call(server, &format!("withdraw('{one}',ARRAY['{}'::uuid],{LIMIT})", owners[0].expose()));
    assert_eq!(carried_out(server, &acquire_together(&[&one, &other], &owners)), [2]);
    assert_eq!(carried_out(server, &release_together(&[&one, &other], &owners)), [2]);
    // Alone it gets nothing either, on a lock that was used before.
    let alone = acquire(&one, owners[0], false);
    let refused = format!("SELECT token IS NULL, counted FROM leasehold.locks_v1_{alone}");
    assert_eq!(server.psql(&refused), "t|-1");
}

/// C14: a batch skips held locks, and a batched release ends no hold of another owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_in_company_nobody_ends_or_takes_the_hold_of_another() {
    let ((server, one), (_, other)) = (used().await, used().await);
    let (holder, stranger) = (OwnerId::random(), OwnerId::random());
    assert_eq!(carried_out(server, &acquire_together(&[&one], &[holder])), [1]);
    let both = [stranger, holder];
    assert_eq!(carried_out(server, &acquire_together(&[&one, &other], &both)), [2]);
    assert_eq!(carried_out(server, &release_together(&[&one, &other], &both)), [2]);
    assert_eq!(carried_out(server, &release_together(&[&one], &[holder])), [1]);
}

/// C27: a lock with waiters is released alone, which lets them in, and a batch of newcomers does not overtake
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_in_company_nobody_passes_those_who_wait() {
    let (server, name) = used().await;
    let (holder, waits, comes) = (OwnerId::random(), OwnerId::random(), OwnerId::random());
    assert_eq!(carried_out(server, &acquire_together(&[&name], &[holder])), [1]);
    call(server, &acquire(&name, waits, true));
    assert!(carried_out(server, &release_together(&[&name], &[holder])).is_empty());
    // The state after a release that found no waiter, with one that counts as alive for the whole test.
    server.psql(&format!(
        "UPDATE leasehold.locks_grants SET owner = NULL WHERE name = '{name}'; \
         UPDATE leasehold.locks_queue SET seen_at = clock_timestamp() + interval '1 hour' WHERE name = '{name}'"
    ));
    assert!(carried_out(server, &acquire_together(&[&name], &[comes])).is_empty());
    assert!(call(server, &acquire(&name, comes, false)).starts_with('|'), "it passed alone");
    call(server, &format!("withdraw('{name}',ARRAY['{}'::uuid],{LIMIT})", waits.expose()));
}

/// C19: a batch skips a lock whose row is kept locked, and still gets the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_jammed_lock_holds_up_no_company() {
    let ((server, jammed), (_, free)) = (used().await, used().await);
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut keeps = stranger.begin().await.expect("begun");
    let lock = format!("SELECT FROM leasehold.locks WHERE name = '{jammed}' FOR UPDATE");
    keeps.execute(AssertSqlSafe(lock)).await.expect("locked");
    let (names, owners) = ([&*jammed, &*free], [OwnerId::random(), OwnerId::random()]);
    // A wait would fail.
    server.psql("ALTER ROLE postgres SET lock_timeout = '1s'");
    assert_eq!(carried_out(server, &acquire_together(&names, &owners)), [2]);
    assert_eq!(carried_out(server, &release_together(&names, &owners)), [2]);
    server.psql("ALTER ROLE postgres RESET lock_timeout");
    keeps.rollback().await.expect("rolled back");
}

/// C19: a wait that cannot be foreseen ends soon, with nothing done. Then the other requests of the batch go
/// alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_wait_in_company_ends_soon() {
    let ((server, free), (_, held), new) = (used().await, used().await, fresh_name());
    let owners = [OwnerId::random(), OwnerId::random()];
    assert_eq!(carried_out(server, &acquire_together(&[&held], &owners[..1])), [1]);
    let mut stranger = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut keeps = stranger.begin().await.expect("begun");
    let made = format!("INSERT INTO leasehold.locks (name) VALUES ('{new}')");
    let extended = format!("SELECT FROM leasehold.locks_grants WHERE name = '{held}' FOR UPDATE");
    for kept in [made, extended] {
        keeps.execute(AssertSqlSafe(kept)).await.expect("locked");
    }
    for together in
        [acquire_together(&[&free, &new], &owners), release_together(&[&held, &free], &owners)]
    {
        let refused = server.try_psql(&format!(
            "SET statement_timeout = '5s'; SELECT FROM leasehold.locks_v1_{together}"
        ));
        assert!(refused.as_ref().is_err_and(|text| text.contains("lock timeout")), "{refused:?}");
    }
    held_beside(server, &new).await;
    keeps.rollback().await.expect("rolled back");
}

/// Acquires locks in a batch with one that is jammed.
async fn held_beside(server: &PostgresServer, jammed: &str) {
    let (client, names) = (client(&server.url()).await, fresh_names());
    let others = join_all(names[..10].iter().map(|name| held(&client, name)));
    // The first request goes alone. The others form a batch, together with the jammed one.
    let guards = match select(pin!(others), pin!(held(&client, jammed))).await {
        Either::Left((guards, _)) => guards,
        Either::Right(_) => panic!("it is free"),
    };
    join_all(guards.into_iter().map(released)).await;
}

/// C19: a batch locks no row of a held lock. So the release of that lock need not wait for the batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_company_keeps_no_held_lock_from_others() {
    let ((server, held), (_, free)) = (used().await, used().await);
    let owners = [OwnerId::random(), OwnerId::random()];
    assert_eq!(carried_out(server, &acquire_together(&[&held], &owners[1..])), [1]);
    let mut company = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut keeps = company.begin().await.expect("begun");
    let asked = acquire_together(&[&held, &free], &owners);
    let asked = format!("SELECT part FROM leasehold.locks_v1_{asked}");
    let parts = sqlx::query_scalar::<_, i64>(AssertSqlSafe(asked)).fetch_all(&mut *keeps).await;
    assert_eq!(parts.expect("an answer"), [2]);
    assert_eq!(carried_out(server, &release_together(&[&held], &owners[1..])), [1]);
    keeps.rollback().await.expect("rolled back");
}

/// C22: batched grants are on disk before the answer, whatever the default is; releases do not wait for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_grants_in_company_wait_for_the_disk_and_releases_do_not() {
    let (server, name) = used().await;
    let owner = OwnerId::random();
    let commits = |default: &str, together: &str| {
        let answer = server.psql(&format!(
            "BEGIN; SET LOCAL synchronous_commit = {default}; \
             SELECT FROM leasehold.locks_v1_{together}; \
             SELECT current_setting('synchronous_commit'); COMMIT"
        ));
        answer.lines().find(|line| ["on", "off"].contains(line)).map(str::to_owned)
    };
    let acquire = acquire_together(&[&name], &[owner]);
    assert_eq!(commits("off", &acquire).as_deref(), Some("on"));
    assert_eq!(commits("on", &acquire).as_deref(), Some("off"), "nothing was granted");
    let release = release_together(&[&name], &[owner]);
    assert_eq!(commits("on", &release).as_deref(), Some("off"));
}

/// C22: a waiter that a withdrawal of two claims lets in by the first is granted on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_waiter_that_a_withdrawal_lets_in_is_on_disk() {
    let (server, name) = used().await;
    let [held, gone, waiter] = [OwnerId::random(), OwnerId::random(), OwnerId::random()];
    let of_one = |owner, queues| acquire(&name, owner, queues).replace("NULL,0,", "1,1,");
    call(server, &of_one(held, false));
    call(server, &of_one(waiter, true));
    let owners = exposed(&[held, gone]);
    let answer = server.psql(&format!(
        "BEGIN; SELECT leasehold.locks_v1_withdraw('{name}', '{owners}', {LIMIT}); \
         SELECT owner || ' ' || current_setting('synchronous_commit') \
         FROM leasehold.locks_holders WHERE name = '{name}'; COMMIT"
    ));
    assert!(answer.contains(" on"), "{answer}");
}
