//! C39: several locks on a Redis server.

use leasehold::{LockError, MultiRequest};
use lock_testkit::Expect;
use lock_testkit::{RedisServer, eventually};

use crate::kinds::commands;
use crate::support::{LIMIT, client, fresh_name, patient};

/// Damage that keeps a lock from being acquired.
#[derive(Clone, Copy)]
enum Damage {
    List,
    Counter,
    Queue,
}

const DAMAGES: [Damage; 3] = [Damage::List, Damage::Counter, Damage::Queue];

impl Damage {
    fn is_done_to(self, server: &RedisServer, name: &str) {
        match self {
            Self::List => server.cli(&["RPUSH", name, "x"]),
            Self::Counter => server.cli(&["SET", &format!("{{{name}}}:fence"), "x"]),
            Self::Queue => server.cli(&["SET", &format!("{{{name}}}:queue"), "x"]),
        };
    }
}

/// Returns new names, in the order of their bytes.
fn names(count: usize) -> Vec<String> {
    let mut names: Vec<_> = (0..count).map(|_| fresh_name()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_free_locks_are_acquired_by_one_script() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    // The server learns the scripts.
    client.acquire_all(names(2)).await.expect("free").release().await.expect("held to the end");
    server.cli(&["CONFIG", "RESETSTAT"]);
    let all = client.acquire_all(names(MultiRequest::MAX_NAMES)).await.expect("free locks");
    let sent = commands(&server).into_iter().find(|(command, _)| command == "evalsha");
    assert_eq!(sent, Some(("evalsha".to_owned(), "1".to_owned())));
    all.release().await.expect("held to the end");
}

/// The server keeps the writes of a script that fails midway. So an obstacle at one lock is no error of the
/// request for several, which must report its grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_what_is_taken_before_an_error_is_told() {
    let server = RedisServer::start().await;
    let locks = leasehold::backend(&server.url()).await.expect("a connection");
    for damage in DAMAGES {
        let names = names(3);
        damage.is_done_to(&server, &names[1]);
        let claim = |name: &String| patient(name).claim().expect("a good claim");
        let claims: Vec<_> = names.iter().map(claim).collect();
        let grants =
            locks.expect_several().acquire_while_free(&claims).await.expect("the first is free");
        let holder = locks
            .expect_admin()
            .inspect(&claims[0].name)
            .await
            .expect("an answer")
            .holder()
            .cloned();
        let told: Vec<_> = grants.iter().map(|grant| Some(grant.token)).collect();
        assert_eq!(told, [holder.expect("it was taken").token]);
    }
}

/// Damage to one lock ends the acquisition, and its error names that lock. The locks before it are given back, and
/// those behind it were never touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_what_is_wrong_with_one_lock_is_told_of_that_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for damage in DAMAGES {
        let names = names(3);
        damage.is_done_to(&server, &names[1]);
        let error = client.acquire_all(&names).await.expect_err("one cannot be acquired");
        let named = match &error {
            LockError::NotALock { name, .. } => Some(name),
            LockError::Backend { name, .. } => name.as_ref(),
            _ => None,
        };
        assert_eq!(named.map(|name| name.as_str()), Some(&*names[1]), "{error}");
        eventually("those before it are given back", LIMIT, async || {
            server.cli(&["EXISTS", &names[0]]).integer() == 0
        })
        .await;
        let counter = format!("{{{}}}:fence", names[2]);
        assert_eq!(server.cli(&["EXISTS", &counter]).integer(), 0, "it was asked for");
    }
}
