//! The backend in a connector, and in its build of the command.

use std::process::{Output, Stdio};
use std::time::Duration;

use leasehold::{ClientOptions, Connector, LockError};
use memcached_backend::MemcachedBackend;
use tokio::process::Command;

use crate::server::Memcached;

const COMMAND: &str = env!("CARGO_BIN_EXE_leasehold-memcached");

fn connector() -> Connector {
    Connector::new().scheme("memcached", |url| async move { MemcachedBackend::connect(&url).await })
}

async fn run(url: &str, args: &[&str]) -> Output {
    let mut command = Command::new(COMMAND);
    command.args(args).env("LEASEHOLD_URL", url).stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// C49: a prefix works as on each backend, and a parameter that the backend does not know is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_connector_opens_it_with_a_prefix() {
    // A listing reads all locks of its server.
    let server = Memcached::start(&[]).await;
    let url = server.url();
    let connect = async |url: &str| {
        let options = ClientOptions::new().request_timeout(Duration::from_secs(10));
        connector().connect_with(url, options).await.expect("a client")
    };
    let (shop, all) = (connect(&format!("{url}/?prefix=joins:")).await, connect(&url).await);
    let guard = shop.acquire("42").await.expect("a free lock");
    assert!(all.try_acquire("joins:42").await.expect("an answer").is_none());
    assert_eq!(shop.admin().list("", 10).await.expect("an answer")[0].name.as_str(), "42");
    guard.release().await.expect("it was held to the end");
    for bad in ["?slab=3", "/0", "?prefix=a&slab=3"] {
        let refused = connector().connect(&format!("{url}{bad}")).await.expect_err("refused");
        assert!(matches!(refused, LockError::Config { .. }), "{bad}: {refused}");
    }
    let secret = connector().connect("memcached://me:pa55word@host").await.expect_err("refused");
    assert!(!format!("{secret} {secret:?}").contains("pa55word"), "{secret:?}");
}

/// C15: the error for a server that is down says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_server_that_is_away_may_come_back() {
    let port = lock_testkit::servers::free_port();
    let away = connector().connect(&format!("memcached://127.0.0.1:{port}")).await;
    assert!(away.expect_err("nobody listens").is_transient());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_runs_on_it() {
    // A listing reads all locks of its server.
    let server = Memcached::start(&[]).await;
    let url = server.url();
    let command = format!(
        "test -n \"$LEASEHOLD_TOKEN\" || exit 9; {COMMAND} inspect command --json; {COMMAND} ps command; \
         {COMMAND} run --no-wait command -- true; echo code $?"
    );
    let ran = run(&url, &["run", "command", "--", "sh", "-c", &command]).await;
    let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(0), "{stdout}{stderr}");
    assert!(stdout.contains(r#""name":"command","held":true"#), "{stdout}");
    assert!(stdout.contains("NAME") && stdout.contains("\ncommand "), "{stdout}");
    assert!(stdout.contains("code 75") && stderr.contains("it is held by"), "{stdout}{stderr}");
    let failed = run(&url, &["run", "command", "--", "sh", "-c", "exit 3"]).await;
    assert_eq!(failed.status.code(), Some(3));
}

/// C31, C30: the command's doctor prints what the backend says of itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_knows_it() {
    let url = Memcached::shared().await.url();
    let help = text(&run(&url, &["--help"]).await.stdout);
    assert!(help.contains("memcached:"), "{help}");
    let doctor = run(&url, &["doctor", "--strict"]).await;
    assert_eq!(doctor.status.code(), Some(1), "{}", text(&doctor.stderr));
    let told = text(&doctor.stdout);
    assert!(told.contains("a restart loses all locks") && told.contains("eviction"), "{told}");
    let unknown = run(&format!("{url}?slab=3"), &["ps"]).await;
    assert_eq!(unknown.status.code(), Some(64), "{}", text(&unknown.stderr));
    let away = run("memcached://127.0.0.1:9", &["ps"]).await;
    assert_eq!(away.status.code(), Some(69), "{}", text(&away.stderr));
}
