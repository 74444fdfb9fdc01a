//! Values of a later version: a client never treats them as missing.

use leasehold::core::backend::{Attempt, WaiterHandle};
use leasehold::{DistributedLock, LockRequest};
use lock_testkit::RedisServer;

use crate::queue::{claim, companion, held_and_wanted, holds, place};
use crate::support::{client, fresh_name, patient, released};

const OWNER: &str = "0123456789abcdef0123456789abcdef";

/// End of the holds in these records, in milliseconds since 1970.
const LATER: &str = "9999999999999";

/// Returns records of holds that this version does not write.
fn records() -> Vec<String> {
    let shared = |rest: &str| format!("*\n{OWNER}:7:{LATER}:1{rest}");
    let permits = |rest: &str| format!("*5\n{OWNER}:7:{LATER}:1{rest}");
    vec![
        shared(""),
        shared(":"),
        shared(":0:label"),
        shared(":x::label"),
        shared("::label\n"),
        shared(&format!("::label\n{OWNER}:8:{LATER}:1")),
        permits(":"),
        permits("::label"),
        permits(":0-3:label"),
        permits(":0:label\nmore"),
        format!("*5\n{OWNER}:7:soon:1:0:label"),
        format!("*70000\n{OWNER}:7:{LATER}:1:0:label"),
        format!("*x\n{OWNER}:7:{LATER}:1::label"),
        format!("2\n{OWNER}:7:{LATER}:1::label"),
        format!("{OWNER}:x:{LATER}:label"),
        format!("{}:7:{LATER}:label", &OWNER[1..]),
    ]
}

/// S3: the record is a foreign holder: every kind of request waits for it, and it stays untouched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_record_that_is_not_understood_is_a_foreign_holder() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let kinds: [fn(LockRequest) -> LockRequest; 3] =
        [|request| request, LockRequest::shared, |request| request.permits(1, 5)];
    for record in records() {
        let name = fresh_name();
        server.cli(&["SET", &name, &record, "PX", "60000"]);
        for kind in kinds {
            let tried = client.try_acquire(kind(patient(&name))).await.expect("an answer");
            assert!(tried.is_none(), "two holders: {record:?}");
            assert_eq!(server.cli(&["GET", &name]).text(), record);
        }
        let state = client.admin().inspect(&name).await.expect("an answer");
        assert_eq!(state.holders.len(), 1, "{state:?}");
        assert!(state.holder().is_some_and(|holder| holder.owner.is_none()), "{state:?}");
        server.cli(&["PEXPIRE", &name, "300"]);
        released(client.acquire(patient(&name)).await.expect("it has ended")).await;
    }
}

/// C10: a holder that finds its own hold in such a record does not know how to write it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c10_a_hold_in_a_record_that_is_not_understood_is_not_extended() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let guard = client.acquire(patient(&name).shared()).await.expect("a free lock");
    let later = format!("@{}", server.cli(&["GET", &name]).text());
    server.cli(&["SET", &name, &later, "PX", "60000"]);
    guard.extend(crate::support::MINUTE * 2).await.expect_err("it is another's record");
    assert_eq!(server.cli(&["GET", &name]).text(), later);
}

/// C19: a mark of any type refuses the late request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_a_mark_of_another_type_refuses_a_late_request() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    for is_held in [false, true] {
        let late = claim(&fresh_name());
        let name = late.name.as_str();
        if is_held {
            backend.acquire(&claim(name), None).await.expect("an answer");
        }
        let mark = companion(name, &format!("withdrawn:{}", late.owner.expose()));
        server.cli(&["HSET", &mark, "when", "now"]);
        let (waiter, _events) = WaiterHandle::channel();
        let refused = backend.acquire(&late, Some(&waiter)).await;
        assert!(refused.as_ref().is_err_and(|error| !error.is_transient()), "{refused:?}");
    }
}

/// C27: an entry begins with the time of its waiter's last look, in every version. Its waiter keeps its place while
/// that time is recent, and acquires the lock itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_waiter_of_a_later_version_keeps_its_place() {
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    for entry in ["later", "60000~9:channel:label", "60000*5/2/1:channel:label"] {
        let [holder, later] = held_and_wanted(&*backend).await;
        let (name, waiters) = (later.name.as_str(), companion(later.name.as_str(), "waiters"));
        let next = claim(name);
        assert_eq!(place(&*backend, &next).await, Some(1));
        let seen = |entry: &str| {
            let time = server.cli(&["TIME"]);
            let seen = time.array()[0].text().to_owned() + "000000";
            server.cli(&["HSET", &waiters, &later.owner.expose(), &format!("{seen}:{entry}")]);
        };
        seen(entry);
        backend.release(&holder.name, holder.owner).await.expect("an answer");
        assert!(!holds(&server, &next), "{entry} was passed over");
        assert_eq!(place(&*backend, &next).await, Some(1), "{entry}");
        let own = backend.acquire(&later, None).await.expect("an answer");
        assert!(matches!(own, Attempt::Granted(_)), "{entry}: {own:?}");
        // A waiter without recent looks is dead.
        let dead = claim(name);
        assert_eq!(place(&*backend, &dead).await, Some(1));
        server.cli(&["HSET", &waiters, &next.owner.expose(), &format!("1:{entry}")]);
        backend.release(&later.name, later.owner).await.expect("an answer");
        assert!(holds(&server, &dead), "{entry}: the dead one was waited for");
    }
}
