//! C31: the doctor's findings on real servers.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use leasehold::LockRequest;
use leasehold::admin::{Finding, Health};
use lock_testkit::{RedisServer, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::access::RIGHTS;
use crate::losses::no_snapshot_succeeds;
use crate::rights::user_without;
use crate::support::{LIMIT, client, finding};

const SAFE: [&str; 2] = ["--appendonly", "yes"];

async fn findings(url: &str) -> Vec<Finding> {
    client(url).await.admin().doctor().await.expect("an answer")
}

/// Returns the findings that are not good.
async fn faults(url: &str) -> Vec<(&'static str, Health)> {
    let faults = findings(url).await.into_iter().filter(|finding| finding.health != Health::Good);
    faults.map(|finding| (finding.check, finding.health)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_good_server_passes() {
    let server = RedisServer::start_with(&SAFE).await;
    let findings = findings(&server.url()).await;
    assert!(findings.iter().all(|finding| finding.health == Health::Good), "{findings:?}");
    let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    let settings = ["version", "role", "eviction", "persistence", "watching"];
    assert_eq!(checks, [&settings[..], &["rights", "clock"]].concat());
}

/// C44: the delay of watches is no question of safety, but is still reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_what_watches_learn_is_told() {
    let server = RedisServer::start().await;
    let rights = RIGHTS.iter().copied().chain(["+info"]);
    let user = ["ACL", "SETUSER", "able", "on", "nopass", "resetchannels"];
    server.cli(&user.into_iter().chain(rights).collect::<Vec<_>>());
    let seen = async |url: &str| {
        let watching = finding(&client(url).await, "watching").await;
        assert_eq!(watching.health, Health::Good);
        watching.seen
    };
    assert!(seen(&server.url()).await.contains("with notify-keyspace-events K$gxz it sees"));
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    assert_eq!(seen(&server.url()).await, "a watch sees changes at once");
    let unknown = seen(&format!("redis://able:any@{}", server.addr())).await;
    assert!(unknown.contains("may not see"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_server_that_forgets_is_named() {
    let evicting = RedisServer::start_with(&["--maxmemory-policy", "volatile-lru"]).await;
    let faults = faults(&evicting.url()).await;
    assert_eq!(faults, [("eviction", Health::Risk), ("persistence", Health::Risk)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_replica_is_named() {
    let primary = RedisServer::start_with(&SAFE).await;
    let port = primary.port().to_string();
    let replica =
        RedisServer::start_with(&[&SAFE[..], &["--replicaof", "127.0.0.1", &port]].concat()).await;
    let faults = faults(&replica.url()).await;
    assert_eq!(faults, [("role", Health::Risk), ("rights", Health::Unknown)]);
}

/// Answers each request like a server whose clock is a minute ahead; returns its port.
async fn fast_clock() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                while let Ok(read @ 1..) = client.read(&mut request).await {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
                    for command in request[..read].split(|byte| *byte == b'*').skip(1) {
                        let answer = match command.windows(4).any(|word| word == b"TIME") {
                            true => {
                                format!("*2\r\n$10\r\n{:010}\r\n$1\r\n0\r\n", now.as_secs() + 60)
                            }
                            false => "+PONG\r\n".to_owned(),
                        };
                        client.write_all(answer.as_bytes()).await.expect("it is read");
                    }
                }
            });
        }
    });
    port
}

/// C31: a replica that takes over ends holds by its own clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_clocks_of_replicas_are_read() {
    let primary = RedisServer::start_with(&SAFE).await;
    let clock = async |announced: u16| {
        let (port, announced) = (primary.port().to_string(), announced.to_string());
        let replica = ["--replicaof", "127.0.0.1", &port, "--replica-announce-port", &announced];
        let _replica = RedisServer::start_with(&replica).await;
        let slave = format!("port={announced},state=online");
        eventually("it follows", LIMIT, async || {
            primary.cli(&["INFO", "replication"]).text().contains(&slave)
        })
        .await;
        finding(&client(&primary.url()).await, "clock").await
    };
    let port = fast_clock().await;
    let ahead = clock(port).await;
    assert_eq!(ahead.health, Health::Risk, "{ahead}");
    assert!(ahead.seen.contains(&format!("replica 127.0.0.1:{port}")), "{ahead}");
    assert!(ahead.seen.contains("ahead"), "{ahead}");
    let away = clock(1).await;
    assert_eq!(away.health, Health::Unknown, "{away}");
    assert!(away.seen.contains("replica 127.0.0.1:1"), "{away}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_missing_rights_are_named() {
    let server = RedisServer::start_with(&SAFE).await;
    let user = |name: &str, missing: &str| {
        let rights = RIGHTS.iter().copied().chain(["+info"]).filter(|right| *right != missing);
        let rights: Vec<&str> = rights.collect();
        server.cli(
            &[&["ACL", "SETUSER", name, "on", "nopass", "resetchannels"][..], &rights].concat(),
        );
        format!("redis://{name}:any@{}", server.addr())
    };
    assert_eq!(faults(&user("able", "")).await, []);
    for (name, missing) in
        [("a", "+evalsha"), ("b", "+zrem"), ("c", "+publish"), ("d", "&leasehold-*"), ("e", "~*")]
    {
        assert_eq!(faults(&user(name, missing)).await, [("rights", Health::Risk)], "{missing}");
    }
    assert_eq!(faults(&user("f", "+info")).await, [("settings", Health::Unknown)]);
}

/// C31: each command is tried, even those that the probe needs only if others wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_each_command_that_a_user_may_not_run_is_named() {
    let server = RedisServer::start_with(&SAFE).await;
    // A script that the server knows is called by its hash.
    findings(&server.url()).await;
    let needed = RIGHTS.iter().filter(|right| right.starts_with('+') && **right != "+ping");
    for missing in needed {
        let url = user_without(&server, missing);
        let rights = finding(&client(&url).await, "rights").await;
        assert_eq!(rights.health, Health::Risk, "{missing}: {rights}");
        assert!(rights.to_string().to_lowercase().contains(&missing[1..]), "{missing}: {rights}");
    }
}

/// C31: a server that accepts no writes is still examined, and read, also by a client that connects then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_what_keeps_a_server_from_writing_is_named() {
    let server = RedisServer::start_with(&SAFE).await;
    let _held = client(&server.url()).await.acquire("a").await.expect("a free lock").detach();
    let findings = async || findings(&server.url()).await;
    let is_named = async |code| {
        let findings = findings().await;
        let writes = findings.iter().find(|finding| finding.check == "writes").expect(code);
        assert!(writes.health == Health::Risk && writes.seen.contains(code), "{writes}");
        assert!(findings.iter().any(|finding| finding.check == "persistence"), "{findings:?}");
    };
    for (setting, code) in [("maxmemory", "OOM"), ("min-replicas-to-write", "NOREPLICAS")] {
        server.cli(&["CONFIG", "SET", setting, "1"]);
        is_named(code).await;
        server.cli(&["CONFIG", "SET", setting, "0"]);
    }
    assert!(findings().await.iter().all(|one| one.check != "writes"));
    no_snapshot_succeeds(&server).await;
    is_named("MISCONF").await;
    let admin = client(&server.url()).await.admin();
    assert!(admin.inspect("a").await.expect("it is read").holder().is_some());
    assert_eq!(admin.list("", 10).await.expect("it is read").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_the_probe_leaves_no_lock() {
    let server = RedisServer::start_with(&SAFE).await;
    let client = client(&server.url()).await;
    client.admin().doctor().await.expect("an answer");
    assert_eq!(client.admin().list("", 10).await.expect("an answer"), []);
    assert!(
        client.admin().inspect("leasehold-doctor").await.expect("an answer").holder().is_none()
    );
}

/// C31: locks need commands that a server's settings have renamed away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_commands_that_a_server_does_not_have_are_named() {
    let renamed = ["PEXPIRE", "ZPOPMIN", "SCAN"];
    let settings = renamed.iter().flat_map(|command| ["--rename-command", command, ""]);
    let server =
        RedisServer::start_with(&[&SAFE[..], &settings.collect::<Vec<_>>()].concat()).await;
    let findings = findings(&server.url()).await;
    let commands = findings.iter().find(|finding| finding.check == "commands").expect("it looks");
    assert_eq!(commands.health, Health::Risk);
    assert!(renamed.iter().all(|command| commands.seen.contains(command)), "{commands}");
    assert!(findings.iter().all(|one| one.check != "rights" || one.health != Health::Good));
}

/// C31: each request of a lock reads all its holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_a_crowd_of_holders_is_named() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let hold = || client.acquire(LockRequest::new("a").shared());
    let mut guards = Vec::new();
    for (count, crowd) in [(300, None), (1, Some(Health::Risk))] {
        for guard in join_all((0..count).map(|_| hold())).await {
            guards.push(guard.expect("it fits"));
        }
        let found = client.admin().examine("a").await.expect("an answer");
        let holders = found.iter().find(|finding| finding.check == "holders");
        assert_eq!(holders.map(|finding| finding.health), crowd, "{found:?}");
    }
}
