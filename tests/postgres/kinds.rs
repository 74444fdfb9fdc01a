//! C33 to C38: properties of Postgres for holds beside each other.

use std::time::Duration;

use leasehold::core::Ttl;
use leasehold::core::backend::{Extension, Renewal};
use leasehold::core::{LockAdmin, OwnerId, Whom};
use leasehold::postgres::PostgresBackend;
use leasehold::{DistributedLock, LockClient, LockGuard, LockRequest};
use lock_testkit::LeaseExt;
use lock_testkit::{PostgresServer, eventually};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::{Instant, timeout};

use crate::server::{number, shared};
use crate::support::{
    LIMIT, MINUTE, SLACK, acquiring, client, fresh_name, held, patient, released, served, turn,
    until_waiting,
};
use crate::transactions::until_blocked;

async fn backend(server: &PostgresServer) -> PostgresBackend {
    PostgresBackend::connect(&server.url()).await.expect("a connection")
}

async fn connection(server: &PostgresServer) -> PgConnection {
    PgConnection::connect(&server.url()).await.expect("a connection")
}

async fn takes(client: &LockClient, request: LockRequest) -> LockGuard {
    client.acquire(request).await.expect("it fits")
}

/// C33: an exclusive hold does not read the table of the other kinds: it works while that table is locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c33_an_exclusive_hold_does_not_look_at_others() {
    let server = PostgresServer::start().await;
    let (first, second) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let mut stranger = connection(&server).await;
    let mut kept = stranger.begin().await.expect("begun");
    kept.execute("LOCK TABLE leasehold.locks_holders IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("kept");
    let cycle = async {
        let guard = held(&first, &name).await;
        guard.extend(MINUTE).await.expect("still held");
        let (told, heard) = std::sync::mpsc::channel();
        let request = patient(&name).on_wait(move |_| {
            let _ = told.send(());
        });
        let waiting = acquiring(&second, request);
        eventually("it is told to wait", LIMIT, async || heard.try_recv().is_ok()).await;
        released(guard).await;
        released(served(waiting).await).await;
        turn(&first, &name).await;
        let expires = patient(&name).ttl(Duration::from_secs(1));
        let _expires = takes(&first, expires).await.detach().expect("held");
        turn(&second, &name).await;
    };
    timeout(LIMIT / 2, cycle).await.expect("it waits for nobody");
    kept.rollback().await.expect("rolled back");
}

/// C34, C36: holders that are let in together each learn their own slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c36_those_who_are_let_in_together_have_slots_of_their_own() {
    let server = shared().await;
    let (holder, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let mut waiting = Vec::new();
    for taken in [2, 1, 1] {
        let client = client(&server.url()).await;
        waiting.push(acquiring(&client, patient(&name).permits(taken, 4)));
        until_waiting(&holder, &name, waiting.len()).await;
    }
    released(guard).await;
    // C34: all of them by that release, and not by their own looks.
    let let_in = format!("SELECT count(*) FROM leasehold.locks_holders WHERE name = '{name}'");
    assert_eq!(number(server, &let_in), 3);
    let mut guards = Vec::new();
    for waiting in waiting {
        guards.push(served(waiting).await);
    }
    let slots: Vec<_> = guards.iter().map(LockGuard::slots).collect();
    assert_eq!(slots, [vec![0, 1], vec![2], vec![3]]);
    let tokens: Vec<_> = guards.iter().map(LockGuard::token).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    for guard in guards {
        released(guard).await;
    }
}

/// C38: the permits of a dead holder go to the waiter, even if others hold on, and even if a waiter behind it
/// looks first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_a_dead_holders_permit_goes_to_who_waits_for_it() {
    const TTL: Duration = Duration::from_secs(8);
    let server = shared().await;
    let (first, name) = (client(&server.url()).await, fresh_name());
    let (next, last) = (client(&server.url()).await, client(&server.url()).await);
    let stays = takes(&first, patient(&name).permits(1, 2)).await;
    let dies = LockClient::new(backend(server).await);
    let dead = takes(&dies, patient(&name).ttl(TTL).permits(1, 2)).await;
    let (died_at, slots) = (Instant::now(), dead.slots());
    // No client renews it.
    let _dead = dead.detach().expect("held");
    let next = acquiring(&next, patient(&name).permits(1, 2));
    until_waiting(&first, &name, 1).await;
    let last = acquiring(&last, patient(&name));
    let guard = served(next).await;
    assert_eq!(guard.slots(), slots);
    let took = died_at.elapsed();
    assert!(took < TTL + Duration::from_secs(1) + SLACK, "{took:?}");
    assert!(stays.is_held() && !last.is_finished());
    released(stays).await;
    released(guard).await;
    released(served(last).await).await;
}

/// C34: a waiter at the head that gives up lets in the waiters behind it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c34_a_writer_that_gives_up_lets_readers_in() {
    let server = shared().await;
    let (first, name) = (client(&server.url()).await, fresh_name());
    let reader = takes(&first, patient(&name).shared()).await;
    let lock = backend(server).await;
    let writer = acquiring(&LockClient::new(lock), patient(&name));
    until_waiting(&first, &name, 1).await;
    let next = acquiring(&client(&server.url()).await, patient(&name).shared());
    until_waiting(&first, &name, 2).await;
    writer.abort();
    released(served(next).await).await;
    released(reader).await;
}

/// C36, C38: both holds end as one, so that the waiter gets the lowest slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_who_waits_is_let_in_when_all_are_evicted() {
    let server = shared().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let permits = |taken| patient(&name).permits(taken, 3);
    let _evicted = [takes(&client, permits(1)).await, takes(&client, permits(1)).await];
    let waiting = acquiring(&client, permits(2));
    until_waiting(&client, &name, 1).await;
    assert_eq!(client.admin().evict(&name).await.expect("an answer").len(), 2);
    assert_eq!(served(waiting).await.slots(), [0, 1]);
}

/// C38: an eviction of one owner, after that owner's release, ends no other hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_an_eviction_that_comes_too_late_ends_nobody_else() {
    let server = PostgresServer::start().await;
    let (lock, operator, name) = (backend(&server).await, backend(&server).await, fresh_name());
    let lease = lock.acquire_lease(&patient(&name)).await.expect("a free lock");
    let next = OwnerId::random();
    let mut stranger = connection(&server).await;
    let mut meanwhile = stranger.begin().await.expect("begun");
    let row = format!("SELECT FROM leasehold.locks WHERE name = '{name}' FOR UPDATE");
    meanwhile.execute(AssertSqlSafe(row)).await.expect("locked");
    let evicting = tokio::spawn({
        let (name, whom) = (lease.name().clone(), Whom::Owner(lease.owner().to_string()));
        async move { operator.evict(&name, &whom).await.expect("an answer") }
    });
    until_blocked(&server, 1).await;
    for call in [
        format!("release('{name}', '{}', 9223372036854775807)", lease.owner().expose()),
        format!(
            "acquire('{name}', '{}', 60000, '', NULL, 0, false, NULL, 9223372036854775807)",
            next.expose()
        ),
    ] {
        let call = format!("SELECT FROM leasehold.locks_v1_{call}");
        meanwhile.execute(AssertSqlSafe(call)).await.expect("done");
    }
    meanwhile.commit().await.expect("committed");
    assert_eq!(evicting.await.expect("no panic"), []);
    let state = lock.inspect(lease.name()).await.expect("an answer");
    let holder = state.holder().expect("the next one holds on");
    assert_eq!(holder.owner.as_deref(), Some(&*next.to_string()));
}

/// C22, C35: holds of all kinds are on disk before the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c35_holds_beside_each_other_survive_a_crash() {
    let settings = ["fsync=on", "full_page_writes=on", "synchronous_commit=off"];
    let mut server = PostgresServer::start_with(&settings).await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let first = takes(&client, patient(&name).permits(1, 3)).await;
    let second = takes(&client, patient(&name).permits(2, 3)).await;
    server.kill();
    server.restart().await;
    let state = client.admin().inspect(&name).await.expect("an answer");
    let held: Vec<_> = state
        .holders
        .iter()
        .map(|holder| (holder.token, holder.slots.as_slice().to_vec()))
        .collect();
    assert_eq!(held, [&first, &second].map(|guard| (Some(guard.token()), guard.slots())));
    for guard in [first, second] {
        guard.extend(MINUTE).await.expect("still held");
        released(guard).await;
    }
    turn(&client, &name).await;
}

/// R4: remains of dead holders go with the lock. A lock with a living holder stays, however old its last grant
/// is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_a_lock_that_is_held_for_weeks_is_not_forgotten() {
    let server = PostgresServer::start().await;
    let first = client(&server.url()).await;
    let (kept, unused) = (fresh_name(), fresh_name());
    for (name, end) in [(&kept, "tomorrow"), (&unused, "yesterday")] {
        server.psql(&format!(
            "INSERT INTO leasehold.locks VALUES ('{name}'); \
             INSERT INTO leasehold.locks_grants (name, token, owner, permits, oldest) VALUES \
             ('{name}', 1000000, '00000000-0000-0000-0000-000000000000', 0, 1); \
             INSERT INTO leasehold.locks_holders VALUES \
             (gen_random_uuid(), '{name}', 1000000, '{{}}', '', '{end}')"
        ));
    }
    let left = "SELECT string_agg(name, ',') FROM leasehold.locks_grants";
    eventually("one is forgotten", LIMIT, async || {
        server.psql("SELECT leasehold.locks_v1_forget_unused()");
        server.psql(left) == kept
    })
    .await;
    assert_eq!(number(&server, "SELECT count(*) FROM leasehold.locks_holders"), 1);
    let state = first.admin().inspect(&kept).await.expect("an answer");
    assert_eq!(state.holders.len(), 1);
    assert!(turn(&first, &unused).await.get() > 1_000_000);
}

/// C12, C38: one request renews holds of all kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_holds_of_all_kinds_are_extended_together() {
    let server = shared().await;
    let (lock, names) = (backend(server).await, [fresh_name(), fresh_name(), fresh_name()]);
    let requests = [
        patient(&names[0]),
        patient(&names[1]).shared(),
        patient(&names[2]).permits(1, 2),
        patient(&names[1]).shared(),
        patient(&names[2]).permits(1, 2),
    ];
    let mut leases = Vec::new();
    for request in requests {
        leases.push(lock.acquire_lease(&request).await.expect("it fits"));
    }
    lock.release(leases[3].name(), leases[3].owner()).await.expect("an answer");
    let ttl = Ttl::new(MINUTE).expect("a good TTL");
    let renewals: Vec<_> = leases.iter().map(|lease| Renewal::new(lease, ttl)).collect();
    let extended = lock.extend(&renewals).await;
    let extended: Vec<_> = extended.into_iter().map(|answer| answer.expect("an answer")).collect();
    let lasts = Extension::Extended(MINUTE);
    assert_eq!(extended, [lasts, lasts, lasts, Extension::Lost, lasts]);
    for lease in leases {
        lock.release(lease.name(), lease.owner()).await.expect("an answer");
    }
}
