//! The queue of a lock on the server.

use leasehold::core::backend::{Attempt, Claim, WaiterHandle};
use leasehold::{DistributedLock, Kind, LockRequest};
use lock_testkit::{RedisServer, Reply, eventually};

use crate::kinds::commands;
use crate::support::{LIMIT, busy_is_told_after_the_newest_grant, fresh_name};

pub(crate) fn claim(name: &str) -> Claim {
    LockRequest::new(name).claim().expect("a claim")
}

pub(crate) fn companion(name: &str, what: &str) -> String {
    format!("{{{name}}}:{what}")
}

/// Takes a place in the queue; returns the number of waiters before it.
pub(crate) async fn place(backend: &dyn DistributedLock, claim: &Claim) -> Option<u64> {
    let (waiter, _events) = WaiterHandle::channel();
    match backend.acquire(claim, Some(&waiter)).await.expect("an answer") {
        Attempt::Busy(contention) => contention.position,
        granted => panic!("{granted:?}"),
    }
}

/// R1: nobody removes a waiter that died before its second look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_place_in_a_queue_ends_by_itself() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let name = fresh_name();
    backend.acquire(&claim(&name), None).await.expect("an answer");
    for ahead in 0..3 {
        assert_eq!(place(&*backend, &claim(&name)).await, Some(ahead));
        for what in ["queue", "waiters"] {
            let left = server.cli(&["PTTL", &companion(&name, what)]).integer();
            assert!((1..=6000).contains(&left), "{what} lasts for {left} ms");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_busy_is_told_after_the_newest_grant() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let set_newest = |name: &str, token: u128| {
        server.cli(&["SET", &companion(name, "fence"), &token.to_string()]);
    };
    busy_is_told_after_the_newest_grant(&*backend, set_newest).await;
}

/// C27: this holds even if the server's clock steps back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_who_comes_later_stands_behind_whatever_the_clock_says() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let name = fresh_name();
    backend.acquire(&claim(&name), None).await.expect("an answer");
    let (first, second) = (claim(&name), claim(&name));
    place(&*backend, &first).await;
    let queue = companion(&name, "queue");
    server.cli(&["ZINCRBY", &queue, "3600000000", &first.owner.expose()]);
    assert_eq!(place(&*backend, &second).await, Some(1));
    let last = server.cli(&["ZRANGE", &queue, "-1", "-1"]);
    assert_eq!(last.array()[0].text(), second.owner.expose());
}

/// Returns a held lock's claim, and a claim that waits for it.
pub(crate) async fn held_and_wanted(backend: &dyn DistributedLock) -> [Claim; 2] {
    let name = fresh_name();
    let claims = [claim(&name), claim(&name)];
    backend.acquire(&claims[0], None).await.expect("an answer");
    assert_eq!(place(backend, &claims[1]).await, Some(0));
    claims
}

/// Returns true if the key of the lock shows that this claim holds it.
pub(crate) fn holds(server: &RedisServer, claim: &Claim) -> bool {
    let value = server.cli(&["GET", claim.name.as_str()]);
    matches!(value, Reply::Text(value) if value.starts_with(&claim.owner.expose()))
}

/// C22: the counter's time counts from the last grant, which was a hand-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_hand_over_makes_the_counter_last() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let second = || server.cli(&["TIME"]).array()[0].text().to_owned();
    let [holder, next] = held_and_wanted(&*backend).await;
    let fence = companion(holder.name.as_str(), "fence");
    server.cli(&["PEXPIRE", &fence, "60000"]);
    let granted_in = second();
    eventually("a second passes", LIMIT, async || second() != granted_in).await;
    backend.release(&holder.name, holder.owner).await.expect("an answer");
    assert!(holds(&server, &next));
    assert!(server.cli(&["PTTL", &fence]).integer() > 60_000, "it lasts as before");
}

/// C27: writes that a server without memory refuses come after those that it allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_server_out_of_memory_hands_over() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let [holder, next] = held_and_wanted(&*backend).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    backend.release(&holder.name, holder.owner).await.expect("an answer");
    assert!(holds(&server, &next));
}

/// C22: without a token nobody is granted the lock, and the next waiter keeps its place. The hold is still over
/// (C14).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_damaged_counter_costs_no_place_in_the_queue() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    for garbage in ["x", "9007199254740991"] {
        let [holder, next] = held_and_wanted(&*backend).await;
        let name = holder.name.as_str();
        server.cli(&["SET", &companion(name, "fence"), garbage]);
        backend.release(&holder.name, holder.owner).await.expect("it is released");
        assert_eq!(server.cli(&["EXISTS", name]).integer(), 0);
        let queue = companion(name, "queue");
        assert_eq!(server.cli(&["ZRANGE", &queue, "0", "-1"]).array().len(), 1);
        let left = server.cli(&["PTTL", &queue]).integer();
        assert!((1..=6000).contains(&left), "the queue lasts for {left} ms");
        backend.acquire(&next, None).await.expect_err("there is no token");
        assert_eq!(server.cli(&["GET", &companion(name, "fence")]).text(), garbage);
        server.cli(&["DEL", &companion(name, "fence")]);
        backend.acquire(&claim(name), None).await.expect("an answer");
        backend.acquire(&next, None).await.expect("its turn");
        assert!(holds(&server, &next));
    }
}

/// R1: a look of a waiter that has its place writes only the time of that look. Each write also goes to the replicas
/// and to the append-only file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_look_of_a_waiter_writes_little() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let [_holder, waiting] = held_and_wanted(&*backend).await;
    let written = async || {
        server.cli(&["CONFIG", "RESETSTAT"]);
        assert_eq!(place(&*backend, &waiting).await, Some(0));
        let reads = ["evalsha", "exists", "get", "pttl", "time", "zrank"];
        let writes = commands(&server).into_iter().map(|(command, _)| command);
        writes.filter(|command| !reads.contains(&&**command)).collect::<Vec<_>>()
    };
    assert_eq!(written().await, ["hset"]);
    // A key that would end before the waiter is extended, and so is one that would stay.
    let name = waiting.name.as_str();
    server.cli(&["PEXPIRE", &companion(name, "queue"), "3900"]);
    assert_eq!(written().await, ["hset", "pexpire"]);
    server.cli(&["PERSIST", &companion(name, "waiters")]);
    assert_eq!(written().await, ["hset", "pexpire"]);
    for what in ["queue", "waiters"] {
        let left = server.cli(&["PTTL", &companion(name, what)]).integer();
        assert!((4000..=6000).contains(&left), "{what} lasts for {left} ms");
    }
}

/// A user with rights on the keys of a lock, and on nothing else, writes among the lock's waiters. A release publishes only
/// to channels of clients, since the releasing client may have more rights, and is not kept busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_an_entry_of_a_stranger_among_the_waiters_is_not_acted_on() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let stranger = "0123456789abcdef0123456789abcdef";
    let mut others = server.session();
    others.call(&["SUBSCRIBE", "orders", "leasehold-0123"]);
    for (owner, entry) in [
        (stranger, "60000:orders:label"),
        ("buy a thousand", "60000:leasehold-0123:label"),
        (stranger, "60000*9999999/9999999:leasehold-0123:label"),
    ] {
        for kind in [Kind::Exclusive, Kind::Shared] {
            let mut holder = claim(&fresh_name());
            holder.kind = kind;
            backend.acquire(&holder, None).await.expect("an answer");
            let name = holder.name.as_str();
            let seen = server.cli(&["TIME"]).array()[0].text().to_owned() + "000000";
            server.cli(&["ZADD", &companion(name, "queue"), "1", owner]);
            server.cli(&["HSET", &companion(name, "waiters"), owner, &format!("{seen}:{entry}")]);
            backend.release(&holder.name, holder.owner).await.expect("an answer");
            assert_eq!(server.cli(&["EXISTS", name]), Reply::Integer(0), "{owner} {entry}");
        }
    }
    server.cli(&["PUBLISH", "orders", "the first message"]);
    let told = loop {
        let told = others.receive().expect("a message");
        if told.array()[0].text() == "message" {
            break told;
        }
    };
    assert_eq!(told.array()[2].text(), "the first message");
}
