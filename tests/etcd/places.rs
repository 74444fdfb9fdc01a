//! Places in the queue: the end of an unattended place, and the search for an earlier one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::core::backend::{Attempt, WAITER_LIVENESS};
use leasehold::{ClientOptions, DistributedLock, LockClient, LockRequest, Wait};
use lock_testkit::{EtcdServer, Mode, Proxy, eventually};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::servers::{EtcdFaults, SHORTEST_TTL, claims, gauge, one_member, raw, url_at};
use crate::sessions::backend;
use crate::support::{
    LIMIT, SLACK, a_dead_waiter_keeps_tries_out_for_its_bound, acquiring, client, client_of,
    client_through, fresh_name, held, patient, queued, released, served,
};

/// A waiter's place ends if its client looks no more, although the session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_place_that_nobody_looks_after_ends() {
    let server = one_member().await;
    let (lock, name) = (backend(server).await, fresh_name());
    let (holder, url) = (client(&server.url()).await, server.url());
    let guard = held(&holder, &name).await;
    let request = patient(&name).ttl(SHORTEST_TTL);
    let claim = request.claim().expect("a good claim");
    let other = client(&url).await;
    let waiting = {
        // The handle of a waiter that has gone.
        let lock = Arc::new(lock);
        let client = LockClient::new(lock.clone());
        let waiting = queued(&client, &holder, request.clone(), &name).await;
        (lock, client, waiting)
    };
    assert!(matches!(waiting.0.acquire(&claim, None).await, Ok(Attempt::Busy(_))));
    waiting.2.abort();
    eventually("its place is gone", LIMIT, async || claims(server, &name).len() == 1).await;
    released(guard).await;
    released(held(&other, &name).await).await;
}

/// A waiter whose first answer was lost finds its place again, even if many have come after it.
async fn a_place_is_found_again(request: fn(&str) -> LockRequest) {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    // Waits once, so that its sessions are open.
    let early = queued(&waiter, &holder, patient(&name), &name).await;
    early.abort();
    eventually("it has left", LIMIT, async || claims(server, &name).len() == 1).await;
    proxy.set(Mode::SwallowReplies);
    let found = Arc::new(Mutex::new(Vec::new()));
    let tell = found.clone();
    let request = request(&name).wait(Wait::Forever);
    let request = request.on_wait(move |seen| tell.lock().expect("no panic").push(seen.position));
    let waiting = acquiring(&waiter, request);
    eventually("it has a place", LIMIT, async || claims(server, &name).len() == 2).await;
    let lock = leasehold::backend(&server.url()).await.expect("a connection");
    let behind = (0..20).map(|_| acquiring(&client_of(lock.clone()), patient(&name)));
    let behind: Vec<_> = behind.collect();
    eventually("many wait", LIMIT, async || claims(server, &name).len() == 22).await;
    proxy.cut();
    proxy.set(Mode::Pass);
    eventually("it is found", LIMIT, async || {
        assert!(!waiting.is_finished(), "it has given up");
        !found.lock().expect("no panic").is_empty()
    })
    .await;
    assert_eq!(found.lock().expect("no panic")[0], Some(0), "it does not know its place");
    let token = guard.token();
    released(guard).await;
    let next = served(waiting).await;
    assert!(next.token() > token);
    behind.iter().for_each(|waiting| waiting.abort());
    released(next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_a_place_is_found_again_behind_which_many_wait() {
    a_place_is_found_again(patient).await;
}

/// S3: the place of a reader is found with the claims before it, though it sees many behind it. It would else believe in
/// the lock at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_the_place_of_a_reader_is_found_again_behind_the_holder() {
    a_place_is_found_again(|name| patient(name).shared()).await;
}

/// C28, C27: a place is on the session of its TTL, so no waiter loses its place while `stall` lasts: longer than a
/// lease of 2 s. `server` answers after it.
async fn no_place_is_lost(url: &str, server: &EtcdServer, stall: impl AsyncFnOnce()) {
    const WAITERS: usize = 20;
    let holder = client(url).await;
    let request = || patient("a").ttl(Duration::from_secs(30));
    let guard = holder.acquire(request()).await.expect("a free lock");
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..WAITERS {
        let (waiter, served, request) = (client(url).await, served.clone(), request());
        waiting.push(tokio::spawn(async move {
            let guard = waiter.acquire(request.wait(Wait::Forever)).await.expect("its turn comes");
            served.lock().expect("no panic").push(number);
            released(guard).await;
        }));
        let queued = async || claims(server, "a").len() == number + 2;
        eventually("it waits", LIMIT, queued).await;
    }
    let places = claims(server, "a");
    stall().await;
    // The server ends leases that have expired within a second.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        assert_eq!(claims(server, "a"), places);
        sleep(Duration::from_millis(100)).await;
    }
    released(guard).await;
    join_all(waiting).await.into_iter().for_each(|waiter| waiter.expect("no panic"));
    let in_order: Vec<_> = (0..WAITERS).collect();
    assert_eq!(*served.lock().expect("no panic"), in_order);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_no_place_is_lost_in_a_stall_of_3_s() {
    let server = EtcdServer::start().await;
    no_place_is_lost(&server.url(), &server, async || {
        server.stop();
        sleep(Duration::from_secs(3)).await;
        server.cont();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_no_place_is_lost_while_the_leader_stands_still() {
    let cluster = EtcdServer::start_cluster(3).await;
    let (members, leader) = (cluster.members(), cluster.leader().await);
    no_place_is_lost(&cluster.url(), &members[(leader + 1) % 3], async || {
        members[leader].stop();
        sleep(Duration::from_secs(4)).await;
        members[leader].cont();
        cluster.leader().await;
    })
    .await;
}

/// The served waiters in their order, by their numbers.
type Served = Arc<Mutex<Vec<(usize, Instant)>>>;

/// Starts a waiter that notes when it is served, and then releases the lock.
fn passes_on(client: LockClient, name: &str, number: usize, served: &Served) -> JoinHandle<()> {
    let (request, served) = (patient(name), served.clone());
    tokio::spawn(async move {
        let guard = client.acquire(request).await.expect("its turn comes");
        served.lock().expect("no panic").push((number, Instant::now()));
        released(guard).await;
    })
}

/// Several dead waiters at the front delay the waiters behind them by one bound, and no live waiter loses its place.
async fn dead_waiters_at_the_front(dead: usize) {
    const LIVING: usize = 3;
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let (lost, served) = (Served::default(), Served::default());
    let mut waiting = Vec::new();
    for number in 0..dead + LIVING {
        let dies = number < dead;
        let (url, served) = match dies {
            true => (url_at(proxy.addr()), &lost),
            false => (server.url(), &served),
        };
        waiting.push(passes_on(client(&url).await, &name, number, served));
        let queued = async || claims(server, &name).len() == number + 2;
        eventually("it waits", LIMIT, queued).await;
    }
    let living = claims(server, &name).split_off(1 + dead);
    proxy.set(Mode::BlackHole);
    let released_at = Instant::now();
    released(guard).await;
    let has_its_place = async || {
        let claims = claims(server, &name);
        let first = claims.first().cloned();
        first.is_some_and(|first| living.contains(&first)) || claims.is_empty()
    };
    eventually("the dead are overtaken", LIMIT, has_its_place).await;
    join_all(waiting.split_off(dead)).await.into_iter().for_each(|living| living.expect("served"));
    let served = served.lock().expect("no panic").clone();
    let in_order: Vec<_> = (dead..dead + LIVING).collect();
    assert_eq!(served.iter().map(|(number, _)| *number).collect::<Vec<_>>(), in_order);
    let took = served[0].1 - released_at;
    assert!(took < WAITER_LIVENESS + SLACK, "{dead} dead waiters cost {took:?}");
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_at_the_front_costs_the_bound_and_not_its_ttl() {
    dead_waiters_at_the_front(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_five_dead_waiters_at_the_front_cost_one_bound() {
    dead_waiters_at_the_front(5).await;
}

/// S3: a hold from a place is claimed within a moment. Then its silence is that of a holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_hold_that_was_queued_for_is_not_overtaken() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, silent) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let (next, name) = (client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let request = patient(&name).ttl(4 * SHORTEST_TTL);
    let waiting = queued(&silent, &holder, request, &name).await;
    released(guard).await;
    let silent = served(waiting).await;
    let is_claimed = async || {
        let state = holder.admin().inspect(&name).await.expect("an answer");
        state.holder().is_some_and(|holder| holder.since.is_some())
    };
    eventually("it is claimed", LIMIT, is_claimed).await;
    let waiting = queued(&next, &holder, patient(&name), &name).await;
    proxy.set(Mode::BlackHole);
    let next = served(waiting).await;
    assert!(!silent.is_held(), "two believe");
    released(next).await;
}

/// S3: a hold that could not be claimed is over before the waiters behind it go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_hold_that_could_not_be_claimed_is_over_when_it_is_overtaken() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, silent) =
        (client(&server.url()).await, client_through::<EtcdFaults>(&proxy).await);
    let next = client(&server.url()).await;
    let guard = held(&holder, "a").await;
    let silent = queued(&silent, &holder, patient("a"), "a").await;
    let waiting = acquiring(&next, patient("a"));
    // The holder watches its own key, the first waiter two keys, the second one three.
    let watches = async || gauge(&server, "etcd_debugging_mvcc_watcher_total").await == 6;
    eventually("they watch", LIMIT, watches).await;
    // A waiter's next look is one read.
    sleep(Duration::from_secs(1)).await;
    // The waiter learns of its turn, but can send nothing more.
    proxy.set(Mode::SwallowRequests);
    released(guard).await;
    let next = served(waiting).await;
    // On a busy machine it may not have received it in time.
    if silent.is_finished() {
        let silent = served(silent).await;
        assert!(!silent.is_held(), "two believe");
        assert!(next.token() > silent.token());
    }
    assert!(next.is_held());
    released(next).await;
}

/// S3: a waiter knows the claims nearest to it, which leave before those that it does not know.
///
/// ```text
///   holder ◀── 5 waiters ◀── 20 neighbours, which leave ◀── the waiter
/// ```
async fn a_waiter_outlasts_its_neighbours(request: fn(&str) -> LockRequest) {
    let server = one_member().await;
    let mut operator = raw(server).await;
    let (holder, waiter, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let others: Vec<_> =
        (0..25).map(|number| format!("leasehold/locks/{name}/s-{number}")).collect();
    for (key, owner) in others.iter().zip((0..25).rev()) {
        // A reader reads the claims of other kinds in the order of their values.
        operator.put(&**key, format!("\n\n{owner:032x}"), None).await.expect("an answer");
    }
    let position = Arc::new(Mutex::new(None));
    let told = position.clone();
    let request = request(&name).wait(Wait::Forever);
    let request = request.on_wait(move |seen| *told.lock().expect("no panic") = seen.position);
    let waiting = acquiring(&waiter, request);
    eventually("it waits", LIMIT, async || claims(server, &name).len() == 27).await;
    for key in &others[5..17] {
        operator.delete(&**key, None).await.expect("an answer");
    }
    let position = || *position.lock().expect("no panic");
    eventually("it counts the claims before it", LIMIT, async || position().is_some()).await;
    for key in &others[17..] {
        operator.delete(&**key, None).await.expect("an answer");
    }
    sleep(Duration::from_secs(1)).await;
    assert!(guard.is_held() && !waiting.is_finished(), "two believe");
    assert_eq!(position(), Some(5));
    released(guard).await;
    for key in &others[..5] {
        operator.delete(&**key, None).await.expect("an answer");
    }
    released(served(waiting).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_waiter_outlasts_its_neighbours() {
    a_waiter_outlasts_its_neighbours(patient).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_reader_outlasts_its_neighbours() {
    a_waiter_outlasts_its_neighbours(|name| patient(name).shared()).await;
}

/// C28: a dead waiter keeps tries out for its bound, also from one of several permits.
async fn a_dead_waiter_keeps_tries_out(permits: u16) {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let silent = client_through::<EtcdFaults>(&proxy).await;
    a_dead_waiter_keeps_tries_out_for_its_bound(&server.url(), &silent, &proxy, permits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_keeps_tries_out_for_its_bound() {
    a_dead_waiter_keeps_tries_out(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_dead_waiter_keeps_tries_from_a_free_permit_for_its_bound() {
    a_dead_waiter_keeps_tries_out(3).await;
}

/// C48: each request takes longer than a try, and is answered: the wait goes on, and ends with the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c48_an_endless_wait_outlives_a_slow_server_that_answers() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let slow = client(&url_at(proxy.addr())).await;
    let holder = client(&server.url()).await;
    let guard = held(&holder, "a").await;
    proxy.set_existing(Mode::Delay(Duration::from_millis(600)));
    let waiting = acquiring(&slow, patient("a").wait(Wait::Forever));
    eventually("it has a place", LIMIT, async || claims(&server, "a").len() == 2).await;
    // Longer than an endless wait bears a server without an answer.
    sleep(Duration::from_secs(12)).await;
    assert!(!waiting.is_finished(), "it has given up: {:?}", waiting.await);
    proxy.set_existing(Mode::Delay(Duration::ZERO));
    released(guard).await;
    released(served(waiting).await).await;
}

/// C48, C27: many clients that ask for one lock at once are all served, in the time that the server needs. On a busy
/// machine, the server leaves some of the clients without an answer for longer than half a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c48_a_crowd_at_one_lock_is_served() {
    const CROWD: usize = 150;
    let server = EtcdServer::start().await;
    let options = ClientOptions::new().request_timeout(LIMIT);
    let mut clients = Vec::new();
    for _ in 0..CROWD {
        clients.push(LockClient::with_options(backend(&server).await, options.clone()));
    }
    let served = clients.iter().map(async |client| {
        let guard = client.acquire(patient("a").wait(Wait::Forever)).await.expect("its turn comes");
        released(guard).await;
    });
    join_all(served).await;
}
