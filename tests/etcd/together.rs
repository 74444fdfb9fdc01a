//! Simultaneous requests of a client's tasks go to the server as one transaction: each lock has its own answer.

use futures_util::future::join_all;
use leasehold::{DistributedLock, LockRequest, Wait};
use lock_testkit::EtcdServer;
use lock_testkit::LeaseExt;

use crate::faults::lease_of;
use crate::renewals::requests;
use crate::servers::{claims, one_member};
use crate::sessions::{backend, unrenewed};
use crate::support::{MINUTE, client, fresh_name, held, released};

const MANY: usize = 40;

fn fresh_names() -> Vec<String> {
    (0..MANY).map(|_| fresh_name()).collect()
}

/// C22: each lock is held on the server under a greater token than before, and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_locks_that_are_asked_for_together_are_each_held_and_given_back() {
    let server = EtcdServer::start().await;
    let (client, names) = (client(&server.url()).await, fresh_names());
    let mut last = held(&client, &fresh_name()).await.token();
    // On a busy machine, some may ask only after the first answer: then the round is repeated.
    let (mut rounds, mut fewest) = (0, MANY as u64);
    while rounds < 3 || fewest >= MANY as u64 / 2 {
        rounds += 1;
        assert!(rounds < 30, "no fewer than {fewest} requests");
        let before = requests(&server).await;
        let guards = join_all(names.iter().map(|name| held(&client, name))).await;
        fewest = fewest.min(requests(&server).await - before);
        assert!(guards.iter().all(|guard| guard.token() > last));
        last = guards.iter().map(|guard| guard.token()).max().expect("a token");
        assert!(names.iter().all(|name| claims(&server, name).len() == 1));
        join_all(guards.into_iter().map(released)).await;
        assert!(names.iter().all(|name| claims(&server, name).is_empty()));
    }
}

/// S3: the server decides on all parts of a transaction before it carries out the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s03_of_those_who_ask_for_one_lock_together_one_gets_it() {
    let lock = backend(one_member().await).await;
    for name in fresh_names() {
        let request = LockRequest::new(&name).ttl(MINUTE).wait(Wait::Never);
        let tries = join_all((0..8).map(|_| lock.acquire_lease(&request))).await;
        let leases: Vec<_> = tries.into_iter().filter_map(Result::ok).collect();
        assert_eq!(leases.len(), 1, "{leases:?}");
        let release = lock.release(leases[0].name(), leases[0].owner());
        release.await.expect("an answer");
    }
}

/// An expired lease fails the transaction of all claims that would be on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spoils_one_request_spoils_no_other_that_goes_with_it() {
    let server = EtcdServer::start().await;
    let lock = backend(&server).await;
    let (ends, lasts) = (unrenewed(&lock, MINUTE).await, unrenewed(&lock, 2 * MINUTE).await);
    let key = claims(&server, ends.name().as_str()).pop().expect("a key");
    server.ctl(&["lease", "revoke", &lease_of(&server, &key)]);
    let ask = async |i: usize, name: &String| {
        let ttl = if i == MANY / 2 { ends.ttl() } else { lasts.ttl() };
        lock.acquire_lease(&LockRequest::new(name).ttl(ttl).wait(Wait::Never)).await
    };
    let names = fresh_names();
    let asked = join_all(names.iter().enumerate().map(|(i, name)| ask(i, name))).await;
    for (i, (name, answer)) in names.iter().zip(asked).enumerate() {
        assert_eq!(claims(&server, name).len(), usize::from(answer.is_ok()));
        assert!(answer.is_ok() || i == MANY / 2, "{answer:?}");
    }
}
