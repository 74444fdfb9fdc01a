//! C39: several locks on a Redis server.

use leasehold::{LockError, MultiRequest, Wait};
use lock_testkit::{RedisServer, eventually};

use crate::support::{LIMIT, client, fresh_name};

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

/// Damage to one lock ends the acquisition, and its error names that lock. The locks before it are given back, and a
/// request that does not wait touches none behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_what_is_wrong_with_one_lock_is_told_of_that_lock() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for damage in DAMAGES {
        let names = names(3);
        damage.is_done_to(&server, &names[1]);
        let error = client
            .acquire_all(MultiRequest::new(&names).wait(Wait::Never))
            .await
            .expect_err("one cannot be acquired");
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
