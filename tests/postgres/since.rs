//! C45: the time of the grant, by the server's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_testkit::PostgresServer;

use crate::server::{number, shared};
use crate::support::{
    MINUTE, client, fresh_name, held, holder_of, patient, queued, released, served,
};

/// Returns the server's wall clock.
fn now(server: &PostgresServer) -> SystemTime {
    let micros = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    UNIX_EPOCH + Duration::from_micros(number(server, micros))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_since_is_the_servers_time_of_the_grant() {
    let server = shared().await;
    let url = server.url();
    let (holding, observer, name) = (client(&url).await, client(&url).await, fresh_name());
    let before = now(server);
    let guard = held(&holding, &name).await;
    let after = now(server);
    let seen = holder_of(&observer, &name).await;
    let since = seen.since.expect("the server tells");
    assert!(before <= since && since <= after, "{before:?} {since:?} {after:?}");
    // An extension is not a grant.
    guard.extend(MINUTE * 2).await.expect("still held");
    assert_eq!(holder_of(&observer, &name).await.since, Some(since));
    let listed = observer.admin().list(&name, 10).await.expect("a listing");
    assert_eq!(listed[0].holder().and_then(|holder| holder.since), Some(since));
    let evicted =
        observer.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    assert_eq!(evicted.since, Some(since));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_a_lock_that_was_handed_over_is_held_since_then() {
    let server = shared().await;
    let (first, second, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = held(&first, &name).await;
    let waiting = queued(&second, &first, patient(&name), &name).await;
    let before = now(server);
    released(guard).await;
    let next = served(waiting).await;
    let since = holder_of(&first, &name).await.since.expect("the server tells");
    assert!(before <= since && since <= now(server), "{since:?}");
    released(next).await;
}

/// After the server's clock was set back, the lock's last token is ahead of the clock, and so is the next one.
/// Then no time is shown, rather than a wrong one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c45_a_token_ahead_of_the_clock_tells_no_time() {
    let server = shared().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let ahead = "(extract(epoch FROM clock_timestamp() + interval '1 hour') * 1000000)::bigint";
    server.psql(&format!("INSERT INTO leasehold.locks_grants VALUES ('{name}', {ahead})"));
    let guard = held(&client, &name).await;
    let seen = holder_of(&client, &name).await;
    assert_eq!((seen.token, seen.since), (Some(guard.token()), None));
    released(guard).await;
}
