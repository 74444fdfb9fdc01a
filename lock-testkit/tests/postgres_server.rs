//! Tests of the Postgres server for tests: its start, its disturbances, and its end with the test.

use std::time::Duration;

use lock_testkit::{PostgresServer, child, eventually, is_running};

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
