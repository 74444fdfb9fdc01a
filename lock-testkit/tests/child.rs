//! Tests of child processes: roles, messages, and the end with the parent.

use std::path::Path;
use std::time::Duration;

use lock_testkit::{RedisServer, child, eventually, is_running};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn child_role() {
    child::run(async |role| match role.as_str() {
        "echo" => echo().await,
        "shows a variable" => child::say(&std::env::var("SHOWN").expect("set by the parent")),
        "parent" => be_parent().await,
        "serves" => serve().await,
        other => panic!("no such role: {other}"),
    });
}

async fn echo() {
    loop {
        child::say(&child::hear().await);
    }
}

/// Starts two children, and stops one of them.
async fn be_parent() {
    let (running, stopped) = (child::spawn("echo", &[]), child::spawn("echo", &[]));
    stopped.stop();
    child::say(&format!("{} {}", running.pid(), stopped.pid()));
    std::future::pending().await
}

/// Starts a server that is never dropped.
async fn serve() {
    let server = RedisServer::start().await;
    child::say(&format!("{} {}", server.pid(), server.folder().display()));
    std::future::pending().await
}

#[tokio::test]
async fn hears_and_answers() {
    let mut child = child::spawn("echo", &[]);
    for line in ["one", "", "@ three"] {
        child.tell(line).await;
        assert_eq!(child.line().await, line);
    }
}

#[tokio::test]
async fn is_told_by_its_environment() {
    let mut child = child::spawn("shows a variable", &[("SHOWN", "7")]);
    assert_eq!(child.line().await, "7");
    assert!(child.ended().await.success());
}

#[tokio::test]
#[should_panic(expected = "the child shows a variable ended before it said a line")]
async fn an_end_instead_of_a_line_is_named() {
    let mut child = child::spawn("shows a variable", &[("SHOWN", "7")]);
    child.line().await;
    child.line().await;
}

#[tokio::test]
async fn a_failed_role_fails() {
    let mut child = child::spawn("no such role", &[]);
    assert!(!child.ended().await.success());
}

#[tokio::test]
async fn says_nothing_while_stopped() {
    let mut child = child::spawn("echo", &[]);
    child.tell("awake").await;
    assert_eq!(child.line().await, "awake");
    child.stop();
    child.tell("asleep").await;
    let silence = timeout(Duration::from_millis(100), child.line()).await;
    assert!(silence.is_err());
    child.cont();
    assert_eq!(child.line().await, "asleep");
}

#[tokio::test]
async fn is_killed_also_while_stopped() {
    let mut child = child::spawn("echo", &[]);
    child.stop();
    child.kill().await;
    assert!(!is_running(child.pid()));
}

#[tokio::test]
async fn dies_when_it_is_dropped() {
    let child = child::spawn("echo", &[]);
    let pid = child.pid();
    drop(child);
    eventually("the child is gone", SOON, async || !is_running(pid)).await;
}

#[tokio::test]
async fn dies_with_its_parent_also_while_stopped() {
    let mut parent = child::spawn("parent", &[]);
    let line = parent.line().await;
    parent.kill().await;
    for pid in line.split(' ').map(|pid| pid.parse().expect("an id")) {
        eventually("the grandchild is gone", SOON, async || !is_running(pid)).await;
    }
}

#[tokio::test]
async fn a_server_and_its_folder_go_with_a_process_that_is_killed() {
    let mut parent = child::spawn("serves", &[]);
    let line = parent.line().await;
    let (pid, folder) = line.split_once(' ').expect("an id and a path");
    assert!(Path::new(folder).exists());
    parent.kill().await;
    let pid = pid.parse().expect("an id");
    eventually("the server is gone", SOON, async || !is_running(pid)).await;
    eventually("its folder is gone", SOON, async || !Path::new(folder).exists()).await;
}
