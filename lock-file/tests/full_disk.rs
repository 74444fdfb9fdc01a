//! A full disk ends no hold, and costs no waiter its turn.
//!
//! The disks are real, mounted in a namespace of the test's own. If that fails, these tests fail and say so.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lock_core::{LockClient, LockGuard, LockRequest, Wait};
use lock_file::FileBackend;
use tempfile::tempdir;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Variable with the directory on which a process of these tests fills the disk.
const HOME: &str = "LOCK_FILE_TEST_HOME";

const TTL: Duration = Duration::from_secs(2);
const WAITERS: u64 = 100;

/// Holders of one lock: more than its record has room for.
const READERS: usize = 50;

/// Exit code of a process in which nothing was lost.
const KEPT: i32 = 42;

/// Holds and waits for locks, fills the disk, and lets all waiters have their turn.
#[tokio::test]
async fn fills_the_disk() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Path::new(&home);
    let client = || LockClient::new(FileBackend::open(home.join("locks")).expect("opens"));
    let locks = client();
    let mut guards = Vec::new();
    for number in 0..READERS {
        guards.push(held(&locks, LockRequest::new(format!("lock-{number}"))).await);
        guards.push(held(&locks, LockRequest::new("read").shared()).await);
    }
    let first = held(&locks, LockRequest::new("wanted")).await;
    let mut turns = JoinSet::new();
    for _ in 0..WAITERS {
        let client = client();
        turns.spawn(async move {
            let request = LockRequest::new("wanted").ttl(TTL).wait(Wait::Forever);
            client.acquire(request).await.expect("its turn").release().await.expect("held");
        });
    }
    while locks.admin().inspect("wanted").await.expect("an answer").waiters != Some(WAITERS) {
        sleep(Duration::from_millis(10)).await;
    }
    fill(home);
    sleep(TTL * 2).await;
    let lost = guards.iter().find(|guard| !guard.is_held()).map(LockGuard::name);
    assert_eq!(lost, None, "a hold is lost");
    first.release().await.expect("held to the end");
    while let Some(turn) = turns.join_next().await {
        turn.expect("no panic");
    }
    std::process::exit(KEPT);
}

async fn held(locks: &LockClient, request: LockRequest) -> LockGuard {
    let granted = locks.try_acquire(request.ttl(TTL)).await.expect("an answer");
    granted.expect("a free lock")
}

/// Writes until the disk has no block any more.
fn fill(home: &Path) {
    let mut file = File::create(home.join("fill")).expect("created");
    for length in [64 * 1024, 1024, 1] {
        while file.write_all(&vec![1; length]).is_ok() {}
        file.sync_all().expect("synced");
    }
}

/// Runs [`fills_the_disk`] on a disk that this command mounts at `$1`.
fn runs_on(mount: &str, disk: &Path) {
    let home = tempdir().expect("a directory");
    let program = std::env::current_exe().expect("a path");
    let script = format!(r#"{mount} && shift 2 && exec "$@""#);
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .args([home.path(), disk, &program])
        .args(["--exact", "fills_the_disk", "--nocapture"])
        .env(HOME, home.path())
        .status();
    let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
    assert_ne!(code, Some(101), "something is lost on a full disk: {mount}");
    assert_eq!(
        code,
        Some(KEPT),
        "NOT TESTED: {mount:?} cannot be run here ({status:?}); this test needs the right to mount (run it as root)"
    );
}

#[test]
fn c10_a_full_disk_with_blocks_of_4_kib_ends_no_hold_and_no_wait() {
    runs_on(r#"mount -t tmpfs -o size=2m none "$1""#, Path::new("none"));
}

#[test]
fn c10_a_full_disk_with_blocks_of_1_kib_ends_no_hold_and_no_wait() {
    let folder = tempdir().expect("a directory");
    let disk = folder.path().join("disk");
    File::create(&disk).and_then(|file| file.set_len(8 << 20)).expect("a file");
    let made = Command::new("mkfs.ext4").args(["-q", "-b", "1024"]).arg(&disk).status();
    assert!(made.is_ok_and(|made| made.success()), "NOT TESTED: mkfs.ext4 cannot be run here");
    runs_on(r#"mount -o loop "$2" "$1""#, &disk);
}
