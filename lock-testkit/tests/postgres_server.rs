//! Tests of the Postgres server for tests: its start, its disturbances, and its end with the test.

use std::time::Duration;

use lock_testkit::{PgBouncer, PostgresServer, child, eventually, is_running};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "owner of a server" => own(false).await,
        "owner of a stopped server" => own(true).await,
        other => panic!("no such role: {other}"),
    });
}

async fn own(stopped: bool) {
    let server = PostgresServer::start().await;
    let backend =
        server.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    if stopped {
        server.stop();
    }
    child::say(&format!("{} {backend}", server.pid()));
    std::future::pending().await
}

#[tokio::test]
async fn all_its_processes_die_when_its_test_process_is_killed() {
    for role in ["owner of a server", "owner of a stopped server"] {
        let mut owner = child::spawn(role, &[]);
        let line = owner.line().await;
        let pids: Vec<u32> =
            line.split(' ').map(|pid| pid.parse().expect("a process id")).collect();
        assert!(pids.iter().all(|pid| is_running(*pid)));
        owner.kill().await;
        eventually("the server is gone", SOON, async || !pids.iter().any(|pid| is_running(*pid)))
            .await;
    }
}

#[tokio::test]
async fn keeps_its_data_through_a_crash_and_a_restart() {
    let mut server = PostgresServer::start().await;
    server.psql("CREATE TABLE t (n int); INSERT INTO t VALUES (7)");
    let (pid, port) = (server.pid(), server.port());
    server.kill();
    assert!(!is_running(pid) && server.try_psql("SELECT 1").is_err());
    server.restart().await;
    assert_eq!((server.psql("SELECT n FROM t").as_str(), server.port()), ("7", port));
    server.restart().await;
    assert_eq!(server.psql("SELECT n FROM t"), "7");
    let pid = server.pid();
    drop(server);
    assert!(!is_running(pid));
}

#[tokio::test]
async fn is_stopped_and_goes_on() {
    let server = PostgresServer::start().await;
    server.stop();
    let stream = tokio::net::TcpStream::connect(server.addr()).await.expect("the kernel accepts");
    let mut byte = [0];
    let silent = tokio::time::timeout(Duration::from_millis(200), async {
        let mut stream = stream;
        // A request for TLS. A running server answers it with one letter.
        let request = [0, 0, 0, 8, 4, 210, 22, 47];
        tokio::io::AsyncWriteExt::write_all(&mut stream, &request).await.expect("sent");
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut byte).await.expect("answered")
    });
    assert!(silent.await.is_err());
    server.cont();
    assert_eq!(server.psql("SELECT 1"), "1");
}

#[tokio::test]
async fn has_a_standby_that_takes_no_writes() {
    let server = PostgresServer::start().await;
    let standby = server.standby().await;
    assert_eq!(standby.psql("SELECT pg_is_in_recovery()"), "t");
    server.psql("CREATE TABLE t (n int)");
    eventually("it follows", SOON, async || standby.try_psql("SELECT n FROM t").is_ok()).await;
}

#[tokio::test]
async fn a_pooler_answers_before_it() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(&server).await;
    let stream = tokio::net::TcpStream::connect(pooler.addr()).await;
    assert!(stream.is_ok() && pooler.url().contains(&pooler.addr().to_string()));
}
