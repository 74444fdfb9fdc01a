//! C22: revisions are tokens only within the history of one store.

use std::fs;
use std::process::Command;
use std::time::Duration;

use leasehold::{LockError, LostReason, Wait};
use lock_testkit::EtcdServer;
use tokio::time::timeout;

use crate::servers::claims;
use crate::support::{LIMIT, client, fresh_name, held, patient, released, shown};

/// A cluster that was restored from a backup gives out small revisions again. No lock is granted with one, and held
/// locks are lost, whether the backup has them or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_store_that_went_back_in_time_is_refused() {
    let mut server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    let before = held(&client, "held before").await;
    let (data, backup) = (server.folder().join("data"), server.folder().join("backup"));
    server.kill();
    let copied = Command::new("cp").arg("-r").args([&data, &backup]).status();
    assert!(copied.expect("a copy").success());
    server.restart().await;
    for _ in 0..20 {
        released(held(&client, &fresh_name()).await).await;
    }
    let after = held(&client, "held after").await;
    assert!(before.is_held());
    server.kill();
    fs::remove_dir_all(&data).expect("its data");
    fs::rename(backup, data).expect("its backup");
    server.restart().await;
    let refused = client.acquire(patient("b").wait(Wait::AtMost(Duration::from_secs(5)))).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains("back in time"), "{error:?}");
    for guard in [before, after] {
        let lost = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
        assert_eq!(lost, LostReason::Evicted);
    }
}

/// A backup that is restored as the documentation of etcd says begins a new cluster, at the revision of the backup. The
/// clients from before are refused, also when its revision is ahead again, and new ones get greater tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_restored_backup_is_a_new_cluster_with_greater_tokens() {
    let mut server = EtcdServer::start().await;
    let before = client(&server.url()).await;
    let guard = held(&before, "held").await;
    let (data, backup) = (server.folder().join("data"), server.folder().join("backup"));
    let (data, backup) = (data.to_str().expect("a path"), backup.to_str().expect("a path"));
    server.ctl(&["snapshot", "save", backup]);
    let forgotten = held(&before, "forgotten").await;
    server.kill();
    fs::remove_dir_all(data).expect("its data");
    server
        .ctl(&["snapshot", "restore", backup, "--data-dir", data, "--initial-cluster-token", "b"]);
    server.restart().await;
    for i in 0..50 {
        server.ctl(&["put", "filler", &i.to_string()]);
    }
    let refused = before.acquire(patient("b").wait(Wait::AtMost(Duration::from_secs(5)))).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains("another cluster"), "{error:?}");
    let after = held(&client(&server.url()).await, "b").await;
    assert!(after.token() > forgotten.token(), "{} after {}", after.token(), forgotten.token());
    released(after).await;
    for guard in [guard, forgotten] {
        timeout(LIMIT * 3, guard.lost()).await.expect("the loss is told");
    }
}

/// A member of another cluster in the URL, which is asked when the known member fails, grants nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_member_of_another_cluster_is_refused() {
    let (mut ours, mut other) = (EtcdServer::start().await, EtcdServer::start().await);
    // Ahead of ours, so that its revisions alone prove nothing.
    for i in 0..50 {
        other.ctl(&["put", "filler", &i.to_string()]);
    }
    let client = client(&format!("etcd://{},{}/", ours.addr(), other.addr())).await;
    let guard = held(&client, "a").await;
    // The client draws its first member.
    let known = if claims(&ours, "a").is_empty() { &mut other } else { &mut ours };
    known.kill();
    let refused = client.acquire(patient("b").wait(Wait::AtMost(Duration::from_secs(5)))).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains("another cluster"), "{error:?}");
    timeout(LIMIT * 3, guard.lost()).await.expect("the loss is told");
}
