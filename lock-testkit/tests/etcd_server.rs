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
