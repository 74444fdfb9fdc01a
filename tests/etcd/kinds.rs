//! Kinds of hold on etcd: their cost, unique slots, and dead and foreign clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::admin::Holder;
use leasehold::core::OwnerId;
use leasehold::core::backend::WAITER_LIVENESS;
use leasehold::{LockClient, LockError, LockGuard, LockRequest, Wait};
use lock_testkit::{EtcdServer, Mode, Proxy, eventually};

use crate::servers::{EtcdFaults, SHORTEST_TTL, claims, gauge, one_member};
use crate::support::{
    LIMIT, SLACK, acquiring, client, client_through, fresh_name, held, holder_of, patient, queued,
    released, served, until_waiting,
};

const SECOND: Duration = Duration::from_secs(1);

async fn clients(server: &EtcdServer, count: usize) -> Vec<LockClient> {
    let url = server.url();
    join_all((0..count).map(|_| client(&url))).await
}

async fn acquired(client: &LockClient, request: LockRequest) -> LockGuard {
    client.acquire(request).await.expect("its turn comes")
}

/// Counts the transactions of an acquisition.
async fn transactions(
    server: &EtcdServer,
    client: &LockClient,
    request: LockRequest,
) -> (LockGuard, u64) {
    let sent = || {
        let method = "grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"";
        let name = format!("grpc_server_handled_total{{grpc_code=\"OK\",{method}}}");
        async move { gauge(server, &name).await }
    };
    let before = sent().await;
    let guard = acquired(client, request).await;
    (guard, sent().await - before)
}

/// An exclusive lock costs as much as before, a shared one no more, and a hold of permits beside others needs one
/// look at them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c33_each_kind_takes_as_few_transactions_as_it_can() {
    let server = EtcdServer::start().await;
    let clients = clients(&server, 4).await;
    // Each client reads the floor of tokens once, and none raises it while another holds a lock.
    let before = clients.iter().zip(["a", "b", "c", "d"]);
    let before = before.map(|(client, name)| acquired(client, patient(name)));
    let before = join_all(before).await;
    join_all(before.into_iter().map(released)).await;
    let shared = patient("shared").shared();
    let permit = patient("permits").permits(1, 3);
    let cases = [
        (patient("exclusive"), 1),
        (shared.clone(), 1),
        (shared.clone(), 1),
        (shared, 1),
        (permit.clone(), 1),
        (permit.clone(), 3),
        (permit, 3),
    ];
    let mut guards = Vec::new();
    for ((request, expected), client) in cases.into_iter().zip(clients.iter().cycle()) {
        let asked = format!("{request:?}");
        let (guard, taken) = transactions(&server, client, request).await;
        assert_eq!(taken, expected, "{asked}");
        guards.push(guard);
    }
    join_all(guards.into_iter().map(released)).await;
}

/// C36: many clients decide at the same time; some wait, and some only try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c36_no_slot_is_given_twice_however_many_decide_at_once() {
    let server = one_member().await;
    let (clients, name) = (clients(server, 12).await, fresh_name());
    let in_use: Arc<[AtomicBool; 4]> = Arc::default();
    let work = clients.into_iter().enumerate().map(|(number, client)| {
        let (in_use, name) = (in_use.clone(), name.clone());
        let wait = if number % 3 == 0 { Wait::Never } else { Wait::AtMost(LIMIT) };
        let taken = if number % 4 == 0 { 2 } else { 1 };
        tokio::spawn(async move {
            for _ in 0..12 {
                let request = patient(&name).permits(taken, 4).wait(wait);
                let guard = match client.acquire(request).await {
                    Ok(guard) => guard,
                    Err(LockError::NotAcquired { .. }) => continue,
                    // A busy member may answer late.
                    Err(error) if error.is_transient() => continue,
                    Err(error) => panic!("neither granted nor busy: {error}"),
                };
                let slots: Vec<usize> = guard.slots().iter().copied().map(usize::from).collect();
                assert_eq!(slots.len(), usize::from(taken));
                for slot in &slots {
                    assert!(
                        !in_use[*slot].swap(true, Ordering::SeqCst),
                        "slot {slot} is another's"
                    );
                }
                tokio::task::yield_now().await;
                for slot in &slots {
                    in_use[*slot].store(false, Ordering::SeqCst);
                }
                released(guard).await;
            }
        })
    });
    for worker in join_all(work).await {
        worker.expect("no slot is given twice");
    }
}

/// C28: a dead waiter behind many holders of permits costs those behind it its bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_behind_many_permits_costs_its_bound() {
    const PERMITS: u16 = 18;
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let [holder, next] = [client(&server.url()).await, client(&server.url()).await];
    let (dies, name) = (client_through::<EtcdFaults>(&proxy).await, fresh_name());
    let request = || patient(&name).permits(1, PERMITS);
    let mut guards = join_all((0..PERMITS).map(|_| acquired(&holder, request()))).await;
    let dead = queued(&dies, &holder, request(), &name).await;
    proxy.set(Mode::BlackHole);
    released(guards.remove(0)).await;
    let start = Instant::now();
    let _next = acquired(&next, request()).await;
    assert!(start.elapsed() < WAITER_LIVENESS + SLACK, "{:?}", start.elapsed());
    dead.abort();
}

/// C27, C34: the deletion of a dead waiter spares a live one behind it, which waits for a claim of another kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_live_waiter_behind_a_dead_one_keeps_its_place() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let [holder, writer, last] = clients(server, 3).await.try_into().expect("three");
    let (dies, name) = (client_through::<EtcdFaults>(&proxy).await, fresh_name());
    let permit = || patient(&name).permits(1, 2);
    let (stays, goes) = (acquired(&holder, permit()).await, acquired(&holder, permit()).await);
    let dead = queued(&dies, &holder, permit(), &name).await;
    let writes = acquiring(&writer, patient(&name));
    until_waiting(&holder, &name, 2).await;
    let next = acquiring(&last, permit());
    until_waiting(&holder, &name, 3).await;
    let places = claims(server, &name);
    proxy.set(Mode::BlackHole);
    released(goes).await;
    let is_gone = async || !claims(server, &name).contains(&places[2]);
    eventually("the dead one is overtaken", LIMIT, is_gone).await;
    assert!(claims(server, &name).contains(&places[3]), "the writer has lost its place");
    dead.abort();
    released(stays).await;
    released(served(writes).await).await;
    released(served(next).await).await;
}

/// C38: the permits of a dead client are free once its lease has ended, and no sooner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_the_slot_of_a_dead_client_comes_back() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (other, dies) = (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let name = fresh_name();
    let request = || patient(&name).permits(1, 2);
    let stays = acquired(&other, request()).await;
    let dead = acquired(&dies, request().ttl(SHORTEST_TTL)).await;
    assert_eq!((stays.slots(), dead.slots()), (vec![0], vec![1]));
    proxy.set(Mode::BlackHole);
    let died = Instant::now();
    let next = acquired(&other, request()).await;
    assert_eq!(next.slots(), [1], "the slot of the dead one");
    assert!(next.token() > dead.token(), "each slot fences by itself");
    assert!(!dead.is_held(), "it believes no longer than the server keeps it");
    // The lease is 2 s longer than the TTL; the server ends it up to a second late.
    let bound = SHORTEST_TTL + 2 * SECOND + SECOND + SECOND + SLACK;
    assert!(died.elapsed() < bound, "{:?}", died.elapsed());
    assert!(stays.is_held());
    join_all([stays, next].map(released)).await;
}

/// C37: a foreign claim is exclusive, also while it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c37_a_foreign_claim_that_waits_is_not_passed() {
    let server = one_member().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let kinds: [fn(LockRequest) -> LockRequest; 2] =
        [LockRequest::shared, |request| request.permits(1, 3)];
    for asked in kinds {
        let request = || asked(patient(&name));
        let first = acquired(&client, request()).await;
        let old = format!("leasehold/locks/{name}/s-{}", OwnerId::random().expose());
        server.ctl(&["put", &old, "a label"]);
        let tried = client.try_acquire(request()).await.expect("an answer");
        assert!(tried.is_none(), "who fits waits behind somebody else");
        let waiting = acquiring(&client, request());
        until_waiting(&client, &name, 2).await;
        released(first).await;
        assert_eq!(holder_of(&client, &name).await, Holder::foreign(None), "it is its turn");
        server.ctl(&["del", &old]);
        released(served(waiting).await).await;
    }
}

/// C33: a request that meets another number of permits during its wait waits for those holders too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c33_another_number_that_comes_to_hold_is_waited_for() {
    let server = one_member().await;
    let (clients, name) = (clients(server, 3).await, fresh_name());
    let first = held(&clients[0], &name).await;
    let of = |count: u16| patient(&name).permits(1, count);
    let three = queued(&clients[1], &clients[0], of(3), &name).await;
    let two = acquiring(&clients[2], of(2));
    until_waiting(&clients[0], &name, 2).await;
    released(first).await;
    let three = served(three).await;
    until_waiting(&clients[0], &name, 1).await;
    let refused = clients[0].try_acquire(of(2)).await;
    assert!(matches!(refused, Err(LockError::Conflict { asked: 2, held: 3, .. })), "{refused:?}");
    released(three).await;
    released(served(two).await).await;
}

/// C34, C28: several holders of permits are let in by one release, past a dead waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c34_permits_come_in_past_a_waiter_that_died() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (clients, name) = (clients(server, 3).await, fresh_name());
    let dies = client_through::<EtcdFaults>(&proxy).await;
    let first = held(&clients[0], &name).await;
    let request = || patient(&name).permits(1, 3);
    let dead = queued(&dies, &clients[0], request(), &name).await;
    let waiting: Vec<_> = clients[1..].iter().map(|client| acquiring(client, request())).collect();
    until_waiting(&clients[0], &name, 3).await;
    proxy.set(Mode::BlackHole);
    let released_at = Instant::now();
    released(first).await;
    let guards = join_all(waiting.into_iter().map(served)).await;
    let mut slots: Vec<_> = guards.iter().flat_map(|guard| guard.slots().to_vec()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
    let bound = WAITER_LIVENESS + SECOND + SLACK;
    assert!(released_at.elapsed() < bound, "{:?}", released_at.elapsed());
    dead.abort();
    join_all(guards.into_iter().map(released)).await;
}
