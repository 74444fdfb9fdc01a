//! Locks that stay after their command has ended.

use std::time::Duration;

use lock_testkit::eventually;
use rustix::process::Signal;

use crate::LIMIT;
use crate::shell::{Running, Shell};
use crate::store::Redis;

const SECRET: &str = "pa55word-of-the-test";

/// A command that ends with 0 once the file exists.
const ENDS_WELL: &str = "while [ ! -e go ]; do sleep 0.01; done; rm go";

/// Ends the command; returns the exit code and the messages.
async fn ended(shell: &Shell, mut held: Running) -> (i32, String) {
    std::fs::write(shell.file("go"), "").expect("a file");
    (held.code().await, held.stderr())
}

/// Fails unless the text names the lock, the store, the cause and the time, and no secret.
fn assert_told(stderr: &str, parts: &[&str]) {
    for part in parts {
        assert!(stderr.contains(part), "{part} is not in: {stderr}");
    }
    assert!(!stderr.contains(SECRET), "a secret is shown: {stderr}");
    assert_eq!(stderr.matches("leasehold: ").count(), 1, "it is to be told once: {stderr}");
}

/// Creates a shell whose user has all rights that locks need, until [`forbid`].
pub(crate) fn shell_of_a_user(Redis(server): &Redis) -> Shell {
    let secret = format!(">{SECRET}");
    server.cli(&["ACL", "SETUSER", "app", "on", &secret, "~*", "&*", "+@all"]);
    Shell::with_url(&format!("redis://app:{SECRET}@{}", server.addr()))
}

pub(crate) fn forbid(Redis(server): &Redis) {
    server.cli(&["ACL", "SETUSER", "app", "-@all", "+ping"]);
}

fn allow(Redis(server): &Redis) {
    server.cli(&["ACL", "SETUSER", "app", "+@all"]);
    server.cli(&["FLUSHALL"]);
}

#[tokio::test]
async fn c47_a_release_that_redis_refuses_is_told() {
    let redis = Redis::start().await;
    let (shell, address) = (shell_of_a_user(&redis), redis.0.addr().to_string());
    let fails = format!("{ENDS_WELL}; exit 3");
    for (options, command, expected) in [
        (&[][..], ENDS_WELL, 0),
        (&["-q"], ENDS_WELL, 0),
        (&["--strict"], ENDS_WELL, 77),
        (&["--strict"], &*fails, 3),
    ] {
        allow(&redis);
        let held = shell.hold(&[options, &["--ttl", "60s"]].concat(), "a", command).await;
        forbid(&redis);
        let (code, stderr) = ended(&shell, held).await;
        assert_eq!(code, expected, "{options:?}: {stderr}");
        assert_told(
            &stderr,
            &["lock \"a\"", &address, "no permissions", "keeps the lock for up to"],
        );
    }
}

#[tokio::test]
async fn c47_an_election_tells_of_a_release_that_redis_refuses() {
    let redis = Redis::start().await;
    let shell = shell_of_a_user(&redis);
    let script = format!("echo > holds; {ENDS_WELL}");
    let held = shell.start(&["elect", "a", "--", "sh", "-c", &script]);
    shell.appears("holds").await;
    forbid(&redis);
    let (code, stderr) = ended(&shell, held).await;
    assert_eq!(code, 0, "{stderr}");
    assert_told(&stderr, &["lock \"a\"", "no permissions", "keeps the lock for up to"]);
}

/// C47: an outage at the end is reported when the command gives up, but not if the server returns before.
#[tokio::test]
async fn c47_a_release_without_an_answer_is_told_in_the_end() {
    let redis = Redis::start().await;
    let (shell, address) = (shell_of_a_user(&redis), redis.0.addr().to_string());
    for (options, expected) in [(&["--ttl", "60s"][..], 0), (&["--ttl", "60s", "--strict"], 77)] {
        let held = shell.hold(options, "a", ENDS_WELL).await;
        redis.0.stop();
        let (code, stderr) = ended(&shell, held).await;
        redis.0.cont();
        assert_eq!(code, expected, "{stderr}");
        assert_told(&stderr, &["lock \"a\"", &address, "no answer", "may keep the lock for up to"]);
        redis.0.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn c47_a_release_that_is_answered_late_is_not_told() {
    let redis = Redis::start().await;
    let shell = shell_of_a_user(&redis);
    // On a busy machine the server may be back too late.
    eventually("nothing is told", LIMIT, async || {
        redis.0.cli(&["FLUSHALL"]);
        let held = shell.hold(&["--ttl", "60s", "--strict"], "a", ENDS_WELL).await;
        redis.0.stop();
        let back = async {
            // By then the request time-out is over, but not the time of the janitor.
            tokio::time::sleep(Duration::from_millis(2_700)).await;
            redis.0.cont();
        };
        let ((code, stderr), ()) = tokio::join!(ended(&shell, held), back);
        (code, &*stderr) == (0, "")
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn c47_a_release_that_postgres_refuses_is_told() {
    let server = lock_testkit::PostgresServer::start().await;
    leasehold::connect(&server.url())
        .await
        .expect("a connection")
        .admin()
        .inspect("a")
        .await
        .expect("made");
    server.psql("CREATE ROLE app LOGIN");
    let grant = "GRANT USAGE ON SCHEMA leasehold TO app; \
                 GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO app";
    server.psql(grant);
    let shell = Shell::with_url(&server.url_as("app", "postgres"));
    let held = shell.hold(&["--ttl", "60s", "--strict"], "a", ENDS_WELL).await;
    server.psql("REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA leasehold FROM app, PUBLIC");
    let (code, stderr) = ended(&shell, held).await;
    assert_eq!(code, 77, "{stderr}");
    let address = server.addr().to_string();
    assert_told(
        &stderr,
        &["lock \"a\"", &address, "permission denied", "keeps the lock for up to"],
    );
}

/// C47: a directory that lost its write permission. Root may write everywhere.
#[tokio::test]
async fn c47_a_release_that_the_directory_refuses_is_told() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    if rustix::process::geteuid().is_root() {
        return;
    }
    let store = crate::store::File::start();
    let shell = Shell::of(&store);
    let held = shell.hold(&["--ttl", "60s"], "a", ENDS_WELL).await;
    let url = crate::store::Store::url(&store);
    let folder = std::path::Path::new(url.trim_start_matches("file:"));
    let files =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let files: Vec<_> = files.filter(|file| file.is_file()).collect();
    for file in &files {
        set_permissions(file, Permissions::from_mode(0o400)).expect("it is ours");
    }
    set_permissions(folder, Permissions::from_mode(0o500)).expect("it is ours");
    let (code, stderr) = ended(&shell, held).await;
    set_permissions(folder, Permissions::from_mode(0o700)).expect("it is ours");
    assert_eq!(code, 0, "{stderr}");
    assert_told(&stderr, &["lock \"a\"", &url, "the lock for up to"]);
}

/// C19: a signal during the record of a run ends the command soon.
#[tokio::test]
async fn c42_a_signal_ends_the_recording() {
    let redis = Redis::start().await;
    let shell = shell_of_a_user(&redis);
    let mut held = shell.hold(&["--once", "x", "--ttl", "600s"], "a", ENDS_WELL).await;
    redis.0.stop();
    std::fs::write(shell.file("go"), "").expect("a file");
    eventually("it has ended", LIMIT, async || !shell.file("go").exists()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    held.send(Signal::TERM);
    assert_eq!(held.code().await, 73, "{}", held.stderr());
    redis.0.cont();
}
