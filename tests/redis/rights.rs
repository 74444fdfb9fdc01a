//! Locks of a user without a right that the scripts need.

use leasehold::core::backend::{Release, WaiterHandle};
use leasehold::redis::RedisBackend;
use leasehold::{DistributedLock, LockRequest, Outcome};
use lock_testkit::{RedisServer, Reply};

use crate::access::RIGHTS;
use crate::queue::{claim, place};
use crate::support::{SECRET, client, fresh_name, patient};

/// Returns the URL of a user with all rights but `missing`.
pub(crate) fn user_without(server: &RedisServer, missing: &str) -> String {
    let name = format!("user-{}", fresh_name());
    let secret = format!(">{SECRET}");
    let rights = RIGHTS.iter().copied().chain(["+info"]).filter(|right| *right != missing);
    let rights: Vec<&str> = rights.collect();
    let user = ["ACL", "SETUSER", &name, "on", &secret, "resetchannels"];
    assert_eq!(server.cli(&[&user[..], &rights].concat()).to_string(), "OK");
    format!("redis://{name}:{SECRET}@{}", server.addr())
}

/// C15: no retry helps. The hold is still over: a waiter finds that at its next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_release_that_lacks_a_right_names_it_and_ends_the_hold() {
    let server = RedisServer::start().await;
    for (missing, wanted, named) in [
        ("+zpopmin", false, "ZPOPMIN"),
        ("+zpopmin", true, "ZPOPMIN"),
        ("+hget", true, "HGET"),
        ("+hdel", true, "HDEL"),
        ("+publish", true, "PUBLISH"),
    ] {
        let able = RedisBackend::connect(&server.url()).await.expect("a connection");
        let url = user_without(&server, missing);
        let unable = RedisBackend::connect(&url).await.expect("a connection");
        let holder = claim(&fresh_name());
        able.acquire(&holder, None).await.expect("it is free");
        if wanted {
            assert_eq!(place(&able, &claim(holder.name.as_str())).await, Some(0));
        }
        let refused = unable.release(&holder.name, holder.owner).await.expect_err(missing);
        assert!(!refused.is_transient(), "{missing}: {refused}");
        assert_eq!(refused.outcome(), Outcome::Unknown, "{missing}");
        let text = refused.to_string();
        let remedy = format!("+{}", named.to_lowercase());
        assert!(text.contains(named) && text.contains(&remedy), "{missing}: {text}");
        assert!(!text.contains(SECRET) && !text.contains(&holder.owner.expose()), "{text}");
        let name = holder.name.as_str();
        assert_eq!(server.cli(&["EXISTS", name]), Reply::Integer(0), "{missing}: it is held");
    }
}

/// The error of any refused request names the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_request_that_lacks_a_right_names_it() {
    let server = RedisServer::start().await;
    for missing in ["+evalsha", "+zadd", "+hset", "+set", "+time"] {
        let url = user_without(&server, missing);
        let unable = RedisBackend::connect(&url).await.expect("a connection");
        let name = fresh_name();
        let (waiter, _events) = WaiterHandle::channel();
        let mut refused = None;
        for _ in 0..3 {
            let claim = LockRequest::new(&name).claim().expect("a claim");
            refused = refused.or(unable.acquire(&claim, Some(&waiter)).await.err());
        }
        let refused = refused.expect(missing);
        assert!(!refused.is_transient(), "{missing}: {refused}");
        assert!(refused.to_string().contains(missing), "{missing}: {refused}");
    }
}

/// C47: a release that ended the hold is no failure, even if the user lacks the right to wake waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c47_a_release_that_lacks_the_right_to_wake_waiters_is_confirmed() {
    let server = RedisServer::start().await;
    for (missing, ends) in [("+zpopmin", true), ("+time", false)] {
        let able = client(&user_without(&server, "")).await;
        let name = fresh_name();
        let lease = able.acquire(patient(&name)).await.expect("it is free").detach();
        let lease = lease.expect("it is held");
        let unable = client(&user_without(&server, missing)).await;
        let guard = unable.attach(lease).await;
        let Ok(guard) = guard else {
            assert!(!ends, "{missing}: {guard:?}");
            continue;
        };
        let released = guard.release_confirmed().await;
        assert_eq!(matches!(released, Ok(Release::Released)), ends, "{missing}: {released:?}");
        assert_eq!(server.cli(&["EXISTS", &name]) == Reply::Integer(0), ends, "{missing}");
    }
}
