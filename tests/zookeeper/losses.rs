//! Data that is deleted, or restored from an old backup.

use std::fs;
use std::process::Command;

use leasehold::LostReason;
use lock_testkit::ZooKeeperServer;
use tokio::time::timeout;
use zookeeper_client::Client;

use crate::servers::one_member;
use crate::support::{LIMIT, client, fresh_name, held, released, turn};

/// Deletes a node and all below it, as an operator does.
async fn delete_all(server: &ZooKeeperServer, node: String) {
    let operator = Client::connect(&server.addr().to_string()).await.expect("a connection");
    let (mut found, mut at) = (vec![node], 0);
    while let Some(node) = found.get(at) {
        let children = operator.list_children(node).await.expect("its children");
        let children: Vec<_> = children.iter().map(|child| format!("{node}/{child}")).collect();
        found.extend(children);
        at += 1;
    }
    for node in found.iter().rev() {
        operator.delete(node, None).await.expect("an answer");
    }
}

/// C8: all nodes are deleted, the floor of tokens too. The holder is told at once, and all clients go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_the_holder_is_told_when_all_nodes_are_deleted() {
    let (server, root) = (one_member().await, fresh_name());
    let url = format!("zookeeper://{}/{root}", server.addr());
    let (holder, other) = (client(&url).await, client(&url).await);
    let guard = held(&holder, "a").await;
    delete_all(server, format!("/{root}")).await;
    let reason = timeout(LIMIT, guard.lost()).await.expect("the loss is told");
    assert_eq!(reason, LostReason::Evicted);
    let next = held(&other, "a").await;
    assert!(next.token() > guard.token(), "{} after {}", next.token(), guard.token());
    released(next).await;
}

/// C22: an old backup forgets later grants. While it has a claim, old tokens come back, until an operator raises the
/// floor as the page of ZooKeeper says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_an_old_backup_forgets_grants_and_tokens_until_the_floor_is_raised() {
    let mut server = ZooKeeperServer::start().await;
    let before = client(&server.url()).await;
    let _claim = held(&before, "a claim in the backup").await;
    let (data, backup) = (server.folder().join("data"), server.folder().join("backup"));
    server.kill();
    let copied = Command::new("cp").arg("-r").args([&data, &backup]).status();
    assert!(copied.expect("a copy").success());
    server.restart().await;
    for _ in 0..20 {
        turn(&before, &fresh_name()).await;
    }
    let forgotten = held(&before, "a").await;
    server.kill();
    fs::remove_dir_all(&data).expect("its data");
    fs::rename(backup, data).expect("its backup");
    server.restart().await;
    let next = held(&client(&server.url()).await, "a").await;
    assert!(next.token() < forgotten.token(), "{} and {}", next.token(), forgotten.token());
    released(next).await;
    delete_all(&server, "/leasehold/floor".to_owned()).await;
    assert!(turn(&client(&server.url()).await, "a").await > forgotten.token());
}
