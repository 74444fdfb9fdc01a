//! C45: the time of the grant, by the holder's own clock.

use std::time::{Duration, SystemTime};

use lock_testkit::eventually;

use crate::servers::one_member;
use crate::support::{
    LIMIT, MINUTE, client, fresh_name, held, holder_of, patient, queued, released, served,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_since_is_told_of_a_lock_that_was_granted_at_once() {
    let server = one_member().await;
    let (holding, observer) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    // The value has whole milliseconds.
    let before = SystemTime::now() - Duration::from_millis(1);
    let request = patient(&name).label("a host");
    let guard = holding.acquire(request).await.expect("a free lock");
    let after = SystemTime::now();
    let seen = holder_of(&observer, &name).await;
    let since = seen.since.expect("the value tells");
    assert!(before <= since && since <= after, "{before:?} {since:?} {after:?}");
    assert_eq!(seen.label.as_str(), "a host");
    // An extension is not a grant, even if it moves the key to another lease.
    guard.extend(MINUTE * 2).await.expect("still held");
    assert_eq!(holder_of(&observer, &name).await.since, Some(since));
    let listed = observer.admin().list(&name, 10).await.expect("a listing");
    assert_eq!(listed[0].holder().and_then(|holder| holder.since), Some(since));
    let evicted =
        observer.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    assert_eq!(evicted.since, Some(since));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_since_is_told_of_a_lock_that_was_queued_for_from_its_first_renewal_on() {
    let server = one_member().await;
    let (first, second) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let guard = held(&first, &name).await;
    let waiting = queued(&second, &first, patient(&name).label("a waiter"), &name).await;
    let before = SystemTime::now() - Duration::from_millis(1);
    released(guard).await;
    let next = served(waiting).await;
    eventually("it is renewed", LIMIT, async || holder_of(&first, &name).await.since.is_some())
        .await;
    let seen = holder_of(&first, &name).await;
    assert_eq!(seen.label.as_str(), "a waiter");
    assert!(seen.since.is_some_and(|since| before <= since && since <= SystemTime::now()));
    next.extend(MINUTE * 2).await.expect("still held");
    assert_eq!(holder_of(&first, &name).await.since, seen.since, "an extension is no grant");
    released(next).await;
}
