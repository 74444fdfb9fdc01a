//! Tests of the etcd server for tests: its start, its disturbances, and its end with the test.

use std::time::Duration;

use lock_testkit::{EtcdServer, child, eventually, is_running};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "owner of a server" => {
            let server = EtcdServer::start().await;
            server.stop();
            child::say(&server.pid().to_string());
            std::future::pending().await
        }
        "without etcd" => {
            let started = tokio::spawn(async { EtcdServer::start().await }).await;
            let panic = started.expect_err("no server is installed").into_panic();
            child::say(&panic.downcast::<String>().expect("a panic with a text"));
        }
        other => panic!("no such role: {other}"),
    });
}

#[tokio::test]
async fn dies_when_its_test_process_is_killed() {
    let mut owner = child::spawn("owner of a server", &[]);
    let server: u32 = owner.line().await.parse().expect("a process id");
    assert!(is_running(server));
    owner.kill().await;
    eventually("the server is gone", SOON, async || !is_running(server)).await;
}

#[tokio::test]
async fn a_missing_server_says_what_to_install() {
    let mut child = child::spawn("without etcd", &[("PATH", "/nowhere")]);
    let said = child.line().await;
    for remedy in ["apt-get install etcd-server", "brew install etcd", "cargo xtask test"] {
        assert!(said.contains(remedy), "{said}");
    }
}

#[tokio::test]
async fn keeps_its_data_through_a_restart_and_a_stop() {
    let mut server = EtcdServer::start().await;
    server.ctl(&["put", "a", "1"]);
    let before = server.pid();
    server.kill();
    assert!(!is_running(before));
    server.restart().await;
    assert_ne!(server.pid(), before);
    assert_eq!(server.ctl(&["get", "--print-value-only", "a"]), "1\n");
    server.stop();
    server.cont();
    server.ctl(&["put", "a", "2"]);
}

#[tokio::test]
async fn wants_the_password_also_after_a_restart() {
    let mut server = EtcdServer::start_with_password("secret").await;
    server.restart().await;
    server.ctl(&["put", "a", "1"]);
    assert!(server.url().starts_with("etcd://root:secret@127.0.0.1:"));
    let refused = server.try_ctl(&["--user=root:wrong", "get", "a"]);
    assert!(refused.is_err_and(|said| said.contains("authentication failed")));
}

#[tokio::test]
async fn speaks_tls() {
    let server = EtcdServer::start_tls().await;
    assert!(server.url().starts_with("etcds://localhost:"));
    server.ctl(&["put", "a", "1"]);
}

#[tokio::test]
async fn a_cluster_outlives_its_leader_and_moves_it() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 3);
    let second = cluster.move_leader().await;
    cluster.member(second).kill();
    let third = cluster.leader().await;
    assert_ne!(third, second);
    eventually("the new leader takes a write", SOON, async || {
        cluster.members()[third].try_ctl(&["put", "a", "1"]).is_ok()
    })
    .await;
    cluster.member(second).restart().await;
    eventually("the old leader has the write", SOON, async || {
        cluster.members()[second]
            .try_ctl(&["get", "--print-value-only", "a"])
            .is_ok_and(|a| a == "1\n")
    })
    .await;
}
