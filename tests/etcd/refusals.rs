//! Errors of a cluster that cannot keep locks in its present state: a test for each row of the table in
//! `docs/operating.md`.

use std::time::Duration;

use leasehold::{LockClient, LockRequest, Wait};
use lock_testkit::process::Tethered;
use lock_testkit::servers::free_port;
use lock_testkit::{EtcdServer, eventually};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::support::{LIMIT, SECRET, client, fresh_name, refusal, shown, works};

/// Returns the error of an acquisition with a short wait.
async fn why_not(client: &LockClient) -> String {
    let request = LockRequest::new(fresh_name()).wait(Wait::AtMost(Duration::from_secs(3)));
    shown(&client.acquire(request).await.expect_err("it keeps no locks"))
}

fn assert_says(text: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_user_without_rights_is_told_what_to_grant() {
    let server = EtcdServer::start_with_password(SECRET).await;
    server.ctl(&["user", "add", &format!("claims:{SECRET}")]);
    server.ctl(&["role", "add", "claims"]);
    let grant = ["role", "grant-permission", "claims", "--prefix=true", "readwrite"];
    server.ctl(&[&grant[..], &["leasehold/locks/"]].concat());
    server.ctl(&["user", "grant-role", "claims", "claims"]);
    let partly = client(&format!("etcd://claims:{SECRET}@{}/", server.addr())).await;
    assert_says(&why_not(&partly).await, &["lacks rights", "below the root"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_wrong_password_is_told_so() {
    let server = EtcdServer::start_with_password(SECRET).await;
    let address = server.addr();
    for url in [format!("etcd://root:wrong@{address}/"), format!("etcd://{address}/")] {
        assert_says(&refusal(&url).await, &["check user and password"]);
    }
    let open = EtcdServer::start().await;
    let text = refusal(&format!("etcd://root:{SECRET}@{}/", open.addr())).await;
    assert_says(&text, &["check user and password", "authentication is not enabled"]);
}

/// A learner follows the log without a vote: it accepts no transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_learner_is_named() {
    let server = EtcdServer::start().await;
    works(&client(&server.url()).await).await;
    let folder = tempfile::tempdir().expect("a folder");
    let [ours, peers] = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
    server.ctl(&["member", "add", "learner", "--learner", "--peer-urls", &peers]);
    let members = server.ctl(&["member", "list"]);
    // The learner is listed too, before or after it.
    let mut started = members.lines().filter(|line| line.contains(", started, "));
    let first = started.find_map(|line| line.split(", ").nth(3)).expect("its address");
    let cluster = format!("member-0={first},learner={peers}");
    let data = folder.path().join("data").display().to_string();
    let arguments = [
        ["--name", "learner"],
        ["--data-dir", &data],
        ["--listen-client-urls", &ours],
        ["--advertise-client-urls", &ours],
        ["--listen-peer-urls", &peers],
        ["--initial-advertise-peer-urls", &peers],
        ["--initial-cluster", &cluster],
        ["--initial-cluster-state", "existing"],
    ];
    let arguments: Vec<String> = arguments.concat().into_iter().map(str::to_owned).collect();
    let _learner = Tethered::start("etcd", &arguments, &folder.path().join("log"));
    let url = ours.replace("http:", "etcd:") + "/";
    eventually("it answers", LIMIT, async || leasehold::connect(&url).await.is_ok()).await;
    let text = why_not(&client(&url).await).await;
    assert_says(&text, &["is a learner", "name the members that vote"]);
}

/// The server answers a frame of HTTP/2 by a line of text, as a Redis does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_of_another_kind_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let answering = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.write_all(b"-ERR unknown command 'PRI'\r\n").await;
            open.push(connection);
        }
    });
    // If the answer is read before the request is sent, the connection only looks closed.
    let url = format!("etcd://{address}/");
    let says = "does not speak etcd's protocol: name the port of clients (2379)";
    eventually("it says so", LIMIT, async || refusal(&url).await.contains(says)).await;
    answering.abort();
}

#[cfg(feature = "etcd-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_without_tls_is_named() {
    let plain = EtcdServer::start().await;
    let text = refusal(&plain.url().replace("etcd:", "etcds:")).await;
    assert_says(&text, &["use etcd://, not etcds://"]);
}

/// The server answers a frame of HTTP/2 by an alert of TLS, or ends the connection.
#[cfg(feature = "etcd-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_that_speaks_tls_is_named() {
    let server = EtcdServer::start_tls().await;
    let text = refusal(&server.url().replace("etcds:", "etcd:")).await;
    assert_says(&text, &["speaks TLS, say etcds, not etcd"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_cluster_without_a_leader_says_so() {
    let mut cluster = EtcdServer::start_cluster(3).await;
    let url = cluster.members()[2].url();
    let client = client(&url).await;
    works(&client).await;
    cluster.member(0).kill();
    cluster.member(1).kill();
    let says = "the cluster has no leader: most members are down";
    eventually("it says so", LIMIT, async || why_not(&client).await.contains(says)).await;
}
