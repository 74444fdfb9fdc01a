//! Commands that reach Redis by a name that changes its address: a planned failover without losses.
//!
//! The machine's own resolver looks the names up. Each command has its own hosts file, in a namespace made by
//! `unshare`. If that fails, the test fails and says so.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;

use lock_testkit::{RedisServer, eventually};
use tokio::process::Child;
use tokio::time::timeout;

use crate::LIMIT;
use crate::shell::Shell;

const NAME: &str = "redis.test";

/// Runs `leasehold` with the file HOSTS in place of /etc/hosts.
const WITH_HOSTS: &str = r#"mount --bind "$HOSTS" /etc/hosts && exec "$L" "$@""#;

fn named(hosts: &Path, address: SocketAddr) {
    fs::write(hosts, format!("{} {NAME}\n", address.ip())).expect("a file");
}

/// Runs `command` under the lock, with a TTL that ends before the command if no server renews it.
fn locked(shell: &Shell, hosts: &Path, command: &str) -> Child {
    let unshare = ["--mount", "--map-root-user", "sh", "-c", WITH_HOSTS, "leasehold"];
    let run = ["run", "-v", "--ttl", "9s", "stock", "--", "sh", "-c", command];
    let mut process = shell.command("unshare", &[&unshare[..], &run].concat());
    let log = fs::OpenOptions::new().create(true).append(true).open(shell.file("log"));
    process.env("HOSTS", hosts).stdout(Stdio::null()).stderr(log.expect("a file"));
    process.spawn().expect("`unshare` is installed")
}

/// Returns the remaining time of the lock on a server.
fn left(server: &RedisServer) -> i64 {
    server.cli(&["PTTL", "stock"]).integer()
}

/// C12: the hold continues on the server that the name now means, and the waiter gets its turn there. No write is
/// lost, and tokens grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c12_a_hold_goes_on_where_its_name_leads_after_a_failover() {
    let first = RedisServer::start().await;
    let port = first.port().to_string();
    let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), first.port()));
    let second = RedisServer::start_at(other, &["--replicaof", "127.0.0.1", &port]).await;
    eventually("it follows", LIMIT, async || {
        second.cli(&["INFO", "replication"]).text().contains("master_link_status:up")
    })
    .await;
    let shell = Shell::with_url(&format!("redis://{NAME}:{port}"));
    let hosts = shell.file("hosts");
    named(&hosts, first.addr());

    let work = "echo $LEASEHOLD_TOKEN > first; while [ ! -e done ]; do sleep 0.05; done";
    let mut holder = locked(&shell, &hosts, work);
    eventually("it holds", LIMIT, async || {
        assert!(holder.try_wait().expect("ours").is_none(), "no namespace? {}", shell.read("log"));
        shell.file("first").exists()
    })
    .await;
    let mut waiter = locked(&shell, &hosts, "echo $LEASEHOLD_TOKEN > second");
    eventually("it waits", LIMIT, async || second.cli(&["ZCARD", "{stock}:queue"]).integer() == 1)
        .await;

    // No client writes while the replica catches up, so nothing is lost.
    first.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    eventually("it has all", LIMIT, async || offset(&first) == offset(&second)).await;
    second.cli(&["REPLICAOF", "NO", "ONE"]);
    named(&hosts, second.addr());
    first.cli(&["REPLICAOF", "127.0.0.2", &port]);
    first.cli(&["CLIENT", "UNPAUSE"]);

    for renewal in ["it is renewed", "and once more"] {
        let mut before = i64::MAX;
        eventually(renewal, LIMIT, async || {
            let now = left(&second);
            assert!(now > 0, "it is lost: {}", shell.read("log"));
            now > std::mem::replace(&mut before, now)
        })
        .await;
    }
    assert!(!shell.file("second").exists(), "two hold");
    fs::write(shell.file("done"), "").expect("a file");
    for process in [&mut holder, &mut waiter] {
        let ended = timeout(LIMIT, process.wait()).await.expect("it ends").expect("it is ours");
        assert!(ended.success(), "{ended}: {}", shell.read("log"));
    }
    let token = |file: &str| shell.read(file).trim().parse::<u64>().expect("a token");
    assert!(token("second") > token("first"));
}

/// Returns the number of bytes that a server has written or replicated.
fn offset(server: &RedisServer) -> String {
    let info = server.cli(&["INFO", "replication"]);
    let mut lines = info.text().lines();
    lines.find(|line| line.starts_with("master_repl_offset:")).expect("it tells").to_owned()
}
