//! Holds that move to another session, while their caller leaves or the answer is late.
//!
//! Tests that poll an extension once run on one thread: then no answer can come before that poll ends.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::core::backend::{Attempt, Extension, Release, Renewal};
use leasehold::core::{Lease, LockAdmin as _, Ttl, Whom};
use leasehold::zookeeper::ZooKeeperBackend;
use leasehold::{DistributedLock, LockRequest, LostReason};
use lock_testkit::{LeaseExt as _, Mode, Proxy, eventually};
use tokio::runtime::Builder;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::servers::one_member;
use crate::support::{LIMIT, MINUTE, client, fresh_name, patient, queued, released, served};

const TTL: Duration = Duration::from_secs(20);

/// A hold on a session of its TTL, whose client also has one of a minute.
struct Hold {
    backend: ZooKeeperBackend,
    lease: Lease,
    /// Carries out requests that come late.
    operator: Client,
}

impl Hold {
    async fn new() -> Self {
        Self::of(TTL).await
    }

    async fn of(ttl: Duration) -> Self {
        let server = one_member().await;
        let backend = ZooKeeperBackend::connect(&server.url()).await.expect("a connection");
        let lease = async |ttl| {
            let request = LockRequest::new(fresh_name()).ttl(ttl);
            backend.acquire_lease(&request).await.expect("a free lock")
        };
        let operator = Client::connect(&server.addr().to_string()).await.expect("a connection");
        let (_, lease) = (lease(MINUTE).await, lease(ttl).await);
        Self { backend, lease, operator }
    }

    fn longer(&self) -> [Renewal; 1] {
        [Renewal::new(&self.lease, Ttl::new(MINUTE).expect("a TTL"))]
    }

    /// Extends the hold beyond its session.
    async fn until_extended(&self) {
        eventually("it is extended", LIMIT, async || {
            let answer = self.backend.extend(&self.longer()).await.pop().expect("one answer");
            assert!(!matches!(answer, Ok(Extension::Lost)), "it is held");
            answer.is_ok()
        })
        .await;
    }

    fn lock(&self) -> String {
        format!("/leasehold/locks/{}", self.lease.name())
    }

    async fn nodes(&self) -> Vec<String> {
        self.operator.list_children(&self.lock()).await.expect("the lock's node")
    }

    /// Carries out the request of a move, as if it was sent and came late.
    async fn moves(&self) {
        let [node] = &self.nodes().await[..] else { panic!("one hold") };
        let (from, to) = (format!("{}/{node}", self.lock()), format!("{}/{node}.1", self.lock()));
        let text = format!("claim1 held {} {} - 0 ", MINUTE.as_millis(), self.lease.token());
        let mut write = self.operator.new_multi_writer();
        write.add_delete(&from, None).expect("a path");
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        write.add_create(&to, text.as_bytes(), &options).expect("a path");
        write.commit().await.expect("the move");
    }
}

/// C19: an extension that is dropped before its request is sent takes nothing from the hold.
#[tokio::test]
async fn c19_an_extension_whose_caller_leaves_costs_no_hold() {
    let hold = Hold::new().await;
    assert!(hold.backend.extend(&hold.longer()).now_or_never().is_none(), "it asks the server");
    hold.until_extended().await;
    let left = hold.backend.release(hold.lease.name(), hold.lease.owner()).await;
    assert_eq!(left.expect("an answer"), Release::Released);
    assert!(hold.nodes().await.is_empty());
}

/// C19: an extension that is dropped while its request is in flight takes nothing from the hold, and its release leaves
/// nothing.
#[tokio::test]
async fn c19_a_late_move_whose_caller_has_left_costs_no_hold() {
    for is_extended in [true, false] {
        let hold = Hold::new().await;
        assert!(hold.backend.extend(&hold.longer()).now_or_never().is_none(), "it asks the server");
        hold.moves().await;
        if is_extended {
            hold.until_extended().await;
        }
        let left = hold.backend.release(hold.lease.name(), hold.lease.owner()).await;
        assert_eq!(left.expect("an answer"), Release::Released);
        assert!(hold.nodes().await.is_empty());
    }
}

/// C36: an extension without an answer ends no hold of a client that has attached the lease since.
#[tokio::test]
async fn c36_an_extension_without_an_answer_ends_no_hold_of_another_client() {
    const SHORT: Duration = Duration::from_secs(4);
    let url = one_member().await.url();
    let first = ZooKeeperBackend::connect(&url).await.expect("a connection");
    let second = ZooKeeperBackend::connect(&url).await.expect("a connection");
    let for_ttl = |lease: &Lease, ttl| [Renewal::new(lease, Ttl::new(ttl).expect("a TTL"))];
    let longer = SHORT + Duration::from_secs(2);
    let until_later = longer + Duration::from_secs(1);
    let lease = async |ttl| {
        let request = LockRequest::new(fresh_name()).ttl(ttl);
        first.acquire_lease(&request).await.expect("a free lock")
    };
    // These open the sessions, so that the extension below only has to move the node.
    let (_, later) = (lease(longer).await, lease(until_later).await);
    let hold = Hold::of(SHORT).await;
    let attached = first.extend(&for_ttl(&hold.lease, SHORT)).await.pop();
    assert_eq!(attached.expect("one answer").expect("an answer"), Extension::Extended(SHORT));
    assert!(first.extend(&for_ttl(&hold.lease, longer)).now_or_never().is_none(), "it asks");
    let extended = first.extend(&for_ttl(&later, until_later)).await.pop().expect("one answer");
    assert_eq!(extended.expect("an answer"), Extension::Extended(until_later));
    for after in ["before the first client's hold ends", "after it"] {
        let extended = second.extend(&hold.longer()).await.pop().expect("one answer");
        assert_eq!(extended.expect("an answer"), Extension::Extended(MINUTE), "{after}");
        // The first client looks after both of its holds, in the order of their ends.
        let later = format!("/leasehold/locks/{}", later.name());
        eventually("the first client ends its later hold", LIMIT, async || {
            hold.operator.list_children(&later).await.is_ok_and(|nodes| nodes.is_empty())
        })
        .await;
    }
}

/// C16: a repeated acquire on another session finds its own grant, which outlasts the former session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c16_a_repeat_on_another_session_takes_its_grant_along() {
    let (url, name) = (one_member().await.url(), fresh_name());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let (runtime, claim) = (runtime.expect("a runtime"), patient(&name).claim().expect("good"));
    let operator = Client::connect(&url["zookeeper://".len()..]).await.expect("a connection");
    let session = async || {
        let lock = format!("/leasehold/locks/{name}");
        let nodes = operator.list_children(&lock).await.expect("the lock's node");
        let [node] = &nodes[..] else { panic!("one claim") };
        let stat = operator.check_stat(&format!("{lock}/{node}")).await.expect("an answer");
        stat.expect("its node").ephemeral_owner
    };
    let granted = {
        let claim = claim.clone();
        runtime.spawn(async move {
            let backend = ZooKeeperBackend::connect(&url).await.expect("a connection");
            let attempt = backend.acquire(&claim, None).await;
            (backend, attempt)
        })
    };
    let (backend, attempt) = granted.await.expect("no panic");
    let Ok(Attempt::Granted(first)) = attempt else { panic!("{attempt:?}") };
    let before = session().await;
    // The session ends for the client, and goes on at the server.
    runtime.shutdown_background();
    let mut again = None;
    eventually("it is granted again", LIMIT, async || {
        again = backend.acquire(&claim, None).await.ok();
        again.is_some()
    })
    .await;
    let Some(Attempt::Granted(again)) = again else { panic!("{again:?}") };
    assert_eq!(again.token, first.token);
    assert_ne!(session().await, before, "its node is to be on a session that goes on");
    // The session for releases has ended too.
    eventually("it is released", LIMIT, async || {
        backend.release(&claim.name, claim.owner).await.is_ok_and(|left| left == Release::Released)
    })
    .await;
}

/// C10, C41: a hold that moves because its session has ended for its client keeps its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c41_a_hold_that_leaves_an_ended_session_keeps_its_time() {
    let (url, name) = (one_member().await.url(), fresh_name());
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let (runtime, request) = (runtime.expect("a runtime"), patient(&name));
    let operator = Client::connect(&url["zookeeper://".len()..]).await.expect("a connection");
    let lock = format!("/leasehold/locks/{name}");
    let nodes = async || operator.list_children(&lock).await.expect("the lock's node");
    let leased = runtime.spawn(async move {
        let backend = ZooKeeperBackend::connect(&url).await.expect("a connection");
        let lease = backend.acquire_lease(&request).await.expect("a free lock");
        (backend, lease)
    });
    let (backend, lease) = leased.await.expect("no panic");
    let first = nodes().await;
    runtime.shutdown_background();
    let shorter = [Renewal::new(&lease, Ttl::new(TTL).expect("a TTL"))];
    eventually("it moves", LIMIT, async || {
        let answer = backend.extend(&shorter).await.pop().expect("one answer");
        assert!(!matches!(answer, Ok(Extension::Lost)), "it is held");
        nodes().await != first
    })
    .await;
    let [node] = &nodes().await[..] else { panic!("one hold") };
    let (text, _) = operator.get_data(&format!("{lock}/{node}")).await.expect("its node");
    let text = String::from_utf8(text).expect("UTF-8");
    let millis = text.split(' ').nth(2).and_then(|word| word.parse().ok());
    let lasts = millis.map(Duration::from_millis).expect("its TTL");
    assert!(lasts > TTL, "it lasts for {lasts:?} in place of a minute");
}

/// C8: a move whose answer is late is no eviction, and an eviction after the move is noticed.
#[tokio::test]
async fn c08_a_move_whose_answer_is_late_is_no_eviction() {
    let hold = Hold::new().await;
    let mut watch = tokio::spawn(hold.backend.watch(&hold.lease).expect("it is watched"));
    let longer = hold.longer();
    let mut extension = hold.backend.extend(&longer);
    assert!((&mut extension).now_or_never().is_none(), "it asks the server");
    hold.moves().await;
    let told = timeout(Duration::from_secs(1), &mut watch).await;
    assert!(told.is_err(), "it still is held: {told:?}");
    let answer = extension.await.pop().expect("one answer");
    assert!(!matches!(answer, Ok(Extension::Lost)), "it still is held");
    hold.until_extended().await;
    assert!(!watch.is_finished(), "it still is held");
    hold.backend.evict(hold.lease.name(), &Whom::All).await.expect("an answer");
    let told = timeout(LIMIT, watch).await.expect("the eviction is told");
    told.expect("no panic");
}

/// S3: a waiter writes that it holds as soon as the hold before it ends. It believes in that only once it is first, so
/// a hold that has moved lets nobody in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_hold_that_has_moved_lets_nobody_in() {
    let hold = Hold::new().await;
    let (waiter, name) = (client(&one_member().await.url()).await, hold.lease.name());
    let waiting = queued(&waiter, &waiter, patient(name.as_str()), name.as_str()).await;
    let held: HashSet<_> = hold.nodes().await.into_iter().collect();
    hold.until_extended().await;
    eventually("the waiter has written twice", LIMIT, async || {
        assert!(!waiting.is_finished(), "the lock is held");
        let nodes = hold.nodes().await;
        let [waits] = &nodes.iter().filter(|node| held.contains(*node)).collect::<Vec<_>>()[..]
        else {
            return false;
        };
        let read = hold.operator.get_data(&format!("{}/{waits}", hold.lock())).await;
        let (data, stat) = read.expect("its node");
        stat.version >= 2 && data.starts_with(b"claim1 waits ")
    })
    .await;
    let left = hold.backend.release(name, hold.lease.owner()).await;
    assert_eq!(left.expect("an answer"), Release::Released);
    released(served(waiting).await).await;
}

/// C15: a holder that releases amid an eviction does not hide that the others were evicted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_an_eviction_beside_a_release_names_the_evicted() {
    let (server, name) = (one_member().await, fresh_name());
    let proxy = Proxy::start(server.addr()).await;
    let url = format!("zookeeper://{}/", proxy.addr());
    let operator = ZooKeeperBackend::connect(&url).await.expect("a connection");
    let readers = client(&server.url()).await;
    let mut guards = Vec::new();
    for _ in 0..3 {
        let request = LockRequest::new(&name).shared().ttl(MINUTE);
        guards.push(readers.acquire(request).await.expect("beside the others"));
    }
    let second = guards.swap_remove(1);
    // The eviction lists the holds, reads them and deletes them: a round trip for each step.
    proxy.set(Mode::Delay(Duration::from_millis(400)));
    let (lock, before) = (second.name().clone(), proxy.request_bytes());
    let evicting = tokio::spawn(async move { operator.evict(&lock, &Whom::All).await });
    let mut sent = before;
    for step in ["it lists", "it reads", "it deletes"] {
        eventually(step, LIMIT, async || proxy.request_bytes() > sent).await;
        sent = proxy.request_bytes();
    }
    // The deletions are on their way. A busy machine may release too late, or long before.
    let _ = second.release().await;
    let evicted = evicting.await.expect("no panic").expect("two holds were ended");
    assert!(evicted.len() >= 2, "{evicted:?}");
    for guard in guards {
        let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
        assert_eq!(reason, LostReason::Evicted);
    }
}
