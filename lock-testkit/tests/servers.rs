//! Tests of the servers for tests: their start, their disturbances, and their end with the test.

use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use lock_testkit::faults::Server;
use lock_testkit::servers::free_port;
use lock_testkit::{
    EtcdServer, PostgresServer, RedisServer, Reply, TlsRedis, child, eventually, is_running,
};

const SOON: Duration = Duration::from_secs(20);

/// So many random ports would have hundreds in common.
const MANY: usize = 2_000;

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "redis" | "stopped redis" => {
            let server = RedisServer::start().await;
            own(&role, server.pid().to_string(), server).await;
        }
        "stopped etcd" => {
            let server = EtcdServer::start().await;
            own(&role, server.pid().to_string(), server).await;
        }
        "postgres" | "stopped postgres" => {
            let server = PostgresServer::start().await;
            let of_checkpointer = "SELECT pid FROM pg_stat_activity \
                WHERE backend_type = 'checkpointer'";
            let pids = format!("{} {}", server.pid(), server.psql(of_checkpointer));
            own(&role, pids, server).await;
        }
        "owner of many ports" => own_ports().await,
        "without redis" => tell_panic(RedisServer::start()).await,
        "without etcd" => tell_panic(EtcdServer::start()).await,
        other => panic!("no such role: {other}"),
    });
}

/// Keeps a server until the process is killed.
async fn own(role: &str, pids: String, server: impl Server) {
    if role.starts_with("stopped") {
        server.stop();
    }
    child::say(&pids);
    std::future::pending().await
}

async fn own_ports() {
    let ports: Vec<_> = (0..MANY).map(|_| free_port().to_string()).collect();
    child::say(&ports.join(" "));
    std::future::pending().await
}

/// Tells the panic message of a test that cannot start a server.
async fn tell_panic(start: impl Future<Output: Send> + Send + 'static) {
    let started = tokio::spawn(async { drop(start.await) }).await;
    let panic = started.expect_err("no server is installed").into_panic();
    child::say(&panic.downcast::<String>().expect("a panic with a text"));
}

async fn dies_with(role: &str) {
    let mut owner = child::spawn(role, &[]);
    let line = owner.line().await;
    let pids: Vec<u32> = line.split(' ').map(|pid| pid.parse().expect("a process id")).collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    owner.kill().await;
    let are_gone = async || !pids.iter().any(|pid| is_running(*pid));
    eventually("the server is gone", SOON, are_gone).await;
}

#[tokio::test]
async fn redis_dies_when_its_test_process_is_killed() {
    dies_with("redis").await;
    dies_with("stopped redis").await;
}

#[tokio::test]
async fn etcd_dies_when_its_test_process_is_killed() {
    dies_with("stopped etcd").await;
}

#[tokio::test]
async fn all_processes_of_postgres_die_when_its_test_process_is_killed() {
    dies_with("postgres").await;
    dies_with("stopped postgres").await;
}

#[tokio::test]
async fn a_missing_server_says_what_to_install() {
    for (role, debian, homebrew) in
        [("without redis", "redis-server", "redis"), ("without etcd", "etcd-server", "etcd")]
    {
        let mut child = child::spawn(role, &[("PATH", "/nowhere")]);
        let said = child.line().await;
        assert!(said.contains(&format!("apt-get install {debian}")), "{said}");
        assert!(said.contains(&format!("brew install {homebrew}")), "{said}");
        assert!(said.contains("cargo xtask test"), "{said}");
    }
}

#[tokio::test]
async fn dies_when_it_is_dropped() {
    let server = RedisServer::start().await;
    let pid = server.pid();
    drop(server);
    assert!(!is_running(pid));
}

#[tokio::test]
async fn the_port_of_a_killed_server_is_given_to_no_other() {
    let mut server = RedisServer::start().await;
    server.kill();
    let mut given = HashSet::from([server.port()]);
    assert!((0..MANY).all(|_| given.insert(free_port())), "a port was given twice");
    let mut other = child::spawn("owner of many ports", &[]);
    let line = other.line().await;
    let mut ports = line.split(' ').map(|port| port.parse().expect("a port"));
    assert!(ports.all(|port| given.insert(port)), "another process has a port of ours");
}

#[tokio::test]
#[should_panic(expected = "no-such-option")]
async fn a_server_that_does_not_start_shows_its_log() {
    RedisServer::start_with(&["--no-such-option", "1"]).await;
}

#[tokio::test]
async fn each_test_has_its_own() {
    let (one, other) = tokio::join!(RedisServer::start(), RedisServer::start());
    assert_eq!(one.cli(&["SET", "k", "1"]).text(), "OK");
    assert_eq!(other.cli(&["GET", "k"]), Reply::Nil);
    assert!(one.url().ends_with(&format!(":{}/", one.port())));
}

#[tokio::test]
async fn restarts_on_its_port_without_data_by_default() {
    let mut server = RedisServer::start().await;
    let (port, pid) = (server.port(), server.pid());
    server.cli(&["SET", "k", "1"]);
    server.kill();
    assert!(!is_running(pid));
    server.restart().await;
    assert_eq!(server.port(), port);
    assert_eq!(server.cli(&["GET", "k"]), Reply::Nil);
}

#[tokio::test]
async fn restarts_with_its_data_if_told_to_keep_it() {
    let mut server = RedisServer::start_with(&RedisServer::DURABLE).await;
    server.cli(&["SET", "k", "1"]);
    server.restart().await;
    assert_eq!(server.cli(&["GET", "k"]).integer(), 1);
}

#[tokio::test]
async fn answers_nothing_while_stopped() {
    let server = RedisServer::start().await;
    let mut session = server.session();
    session.set_reply_timeout(Duration::from_millis(100));
    server.stop();
    assert!(session.try_call(&["PING"]).is_err());
    server.cont();
    session.set_reply_timeout(SOON);
    assert_eq!(session.receive().expect("the late reply").text(), "PONG");
}

#[tokio::test]
async fn is_killed_while_stopped() {
    let mut server = RedisServer::start().await;
    server.stop();
    server.kill();
    assert!(!is_running(server.pid()));
}

#[tokio::test]
async fn listens_on_a_unix_socket() {
    let server = RedisServer::start_unix().await;
    assert!(server.url().starts_with("redis+unix:///"));
    assert_eq!(server.cli(&["PING"]).text(), "PONG");
}

#[tokio::test]
async fn wants_a_password_if_told_to() {
    let server = RedisServer::start_with(&["--requirepass", "x"]).await;
    assert_eq!(server.cli(&["PING"]).text(), "PONG");
    assert!(server.url().starts_with("redis://:x@127.0.0.1:"));
}

#[tokio::test]
async fn shows_every_kind_of_reply() {
    let server = RedisServer::start().await;
    let replies = server.cli(&["EVAL", "return {1, 'two', redis.error_reply('E 3'), {}}", "0"]);
    let parts = [
        Reply::Integer(1),
        Reply::Text("two".into()),
        Reply::Error("E 3".into()),
        Reply::Array(vec![]),
    ];
    assert_eq!(replies.array(), parts);
    assert_eq!(replies.to_string(), "1\ntwo\n(error) E 3\n");
}

#[tokio::test]
async fn answers_behind_tls() {
    let mut server = TlsRedis::start().await;
    assert_eq!(openssl_client(&server), "+PONG\r\n+OK\r\n");
    assert_eq!(server.server().cli(&["PING"]).text(), "PONG");
}

/// Returns the output of a TLS client that trusts only the server's authority, for PING and QUIT.
fn openssl_client(server: &TlsRedis) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error"])
        .args(["-verify_hostname", "localhost", "-connect"])
        .arg(format!("localhost:{}", server.port()))
        .arg("-CAfile")
        .arg(server.certificates().ca_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl can be run");
    let mut input = client.stdin.take().expect("the input is a pipe");
    std::io::Write::write_all(&mut input, b"PING\r\nQUIT\r\n").expect("openssl reads");
    let output = client.wait_with_output().expect("openssl ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
