//! Reasons of a loss: each cause has its own text.

use std::collections::HashSet;
use std::fs::remove_dir_all;
use std::time::Duration;

use leasehold::{LockError, LockRequest, LostReason};
use lock_testkit::{RedisServer, eventually};
use tokio::time::timeout;

use crate::access::RIGHTS;
use crate::support::{LIMIT, SECRET, client, fresh_name};

const TTL: Duration = Duration::from_secs(4);
const USER: &str = "shop";

/// Acquires a lock, lets `cause` happen, and returns the cause that the guard's error names, which has this part.
async fn loss_by(url: String, part: &str, cause: impl AsyncFnOnce()) -> String {
    let locks = client(&url).await;
    let request = LockRequest::new(&*fresh_name()).ttl(TTL);
    let guard = locks.acquire(request).await.expect("a free lock");
    cause().await;
    timeout(LIMIT, guard.lost()).await.expect("it is lost");
    let error = guard.release().await.expect_err("it is lost");
    let text = error.to_string();
    let LockError::Lost { reason: LostReason::Expired, source: Some(source), .. } = error else {
        panic!("{part}: {text}");
    };
    let source = source.to_string();
    assert!(source.contains(part) && text.contains(&source), "{part}: {text}");
    assert!(!text.contains(SECRET), "{part}: {text}");
    source
}

fn done(server: &RedisServer, command: &[&str]) {
    assert_eq!(server.cli(command).to_string(), "OK", "{command:?}");
}

/// Makes a user with all rights of a client; returns its URL.
fn user(server: &RedisServer) -> String {
    let secret = format!(">{SECRET}");
    let user = ["ACL", "SETUSER", USER, "reset", "resetchannels", "on", &secret];
    done(server, &[&user[..], &RIGHTS[..]].concat());
    format!("redis://{USER}:{SECRET}@{}", server.addr())
}

/// Keeps the server from writing snapshots, so that it refuses writes.
pub(crate) async fn no_snapshot_succeeds(server: &RedisServer) {
    done(server, &["CONFIG", "SET", "save", "3600 1"]);
    remove_dir_all(server.folder()).expect("a folder");
    server.cli(&["BGSAVE"]);
    eventually("the snapshot fails", LIMIT, async || {
        server.cli(&["INFO", "persistence"]).text().contains("rdb_last_bgsave_status:err")
    })
    .await;
}

/// C8: the error of a loss names the operator's act on the server or the user, and the remedy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_each_cause_of_a_loss_reads_differently() {
    let server = RedisServer::start().await;
    let mut told = HashSet::new();
    let revoked = async || done(&server, &["ACL", "SETUSER", USER, "-evalsha", "-eval"]);
    told.insert(loss_by(user(&server), "+evalsha", revoked).await);
    let locked_out = async || {
        done(&server, &["ACL", "SETUSER", USER, "resetpass", ">another"]);
        server.cli(&["CLIENT", "KILL", "USER", USER]);
    };
    told.insert(loss_by(user(&server), "check user, password", locked_out).await);
    let deleted = async || drop(server.cli(&["ACL", "DELUSER", USER]));
    told.insert(loss_by(user(&server), "check user, password", deleted).await);
    let demoted = async || done(&server, &["REPLICAOF", "127.0.0.1", "1"]);
    told.insert(loss_by(server.url(), "READONLY", demoted).await);
    done(&server, &["REPLICAOF", "NO", "ONE"]);
    let full = async || no_snapshot_succeeds(&server).await;
    told.insert(loss_by(server.url(), "MISCONF", full).await);
    // A server uses the same words for a deleted user and a wrong password, on purpose.
    assert!(told.len() >= 4, "{told:#?}");
}
