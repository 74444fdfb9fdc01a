//! C22: revisions are tokens only within one life of one store.

use std::time::Duration;

use leasehold::{LockError, LostReason, Wait};
use lock_testkit::EtcdServer;
use tokio::time::timeout;

use crate::support::{LIMIT, client, fresh_name, held, patient, released, shown};

/// A cluster that lost its data gives out small revisions again: no lock is granted under one, and what
/// was held is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_store_that_went_back_in_time_is_refused() {
    let mut server = EtcdServer::start().await;
    let client = client(&server.url()).await;
    for _ in 0..20 {
        released(held(&client, &fresh_name()).await).await;
    }
    let guard = held(&client, "a").await;
    server.kill();
    std::fs::remove_dir_all(server.folder().join("data")).expect("its data");
    server.restart().await;
    let refused = client.acquire(patient("b").wait(Wait::AtMost(Duration::from_secs(5)))).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains("back in time"), "{error:?}");
    let lost = guard.extend(Duration::from_secs(60)).await;
    assert!(matches!(lost, Err(LockError::Lost { reason: LostReason::Evicted, .. })), "{lost:?}");
}

/// A member of another cluster in the URL, which is asked when the first one fails, grants nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_member_of_another_cluster_is_refused() {
    let (mut ours, other) = (EtcdServer::start().await, EtcdServer::start().await);
    // Ahead, so that its revisions alone tell nothing.
    for i in 0..50 {
        other.ctl(&["put", "filler", &i.to_string()]);
    }
    let client = client(&format!("etcd://{},{}/", ours.addr(), other.addr())).await;
    let guard = held(&client, "a").await;
    ours.kill();
    let refused = client.acquire(patient("b").wait(Wait::AtMost(Duration::from_secs(5)))).await;
    let Err(error @ LockError::Backend { .. }) = refused else { panic!("{refused:?}") };
    assert!(shown(&error).contains("another cluster"), "{error:?}");
    timeout(LIMIT * 3, guard.lost()).await.expect("the loss is told");
}
