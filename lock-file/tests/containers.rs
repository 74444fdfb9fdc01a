//! Containers of one kernel, with separate boot ids and separate time namespaces.
//!
//! The namespaces are real, made by `unshare`. If that fails, these tests fail and say so.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use lock_core::{LockClient, LockRequest};
use lock_file::FileBackend;
use tempfile::{TempDir, tempdir};

/// Variable with the directory in which a process of these tests tries the lock.
const HOME: &str = "LOCK_FILE_TEST_HOME";

/// Exit code of such a process.
const GRANTED: i32 = 40;
const BUSY: i32 = 41;

/// Mounts the file in `$1` over the boot id, and runs the rest.
const BOOT_ID_OF_ITS_OWN: &str =
    r#"mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@""#;

/// Tries the lock once, and ends holding it if it was granted.
#[tokio::test]
async fn tries_the_lock() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let locks = LockClient::new(FileBackend::open(home).expect("opens"));
    let request = LockRequest::new("a").ttl(Duration::from_secs(600));
    let granted = locks.try_acquire(request).await.expect("an answer");
    std::process::exit(if granted.is_some() { GRANTED } else { BUSY });
}

/// Tries the lock in a process that is started through `container`.
fn tried_in(container: &[&str], home: &Path) -> i32 {
    let program = std::env::current_exe().expect("a path");
    let words = container.iter().map(|word| (*word).to_owned());
    let mut command = words.chain([program.to_string_lossy().into_owned()]);
    let status = Command::new(command.next().expect("a program"))
        .args(command)
        .args(["--exact", "tries_the_lock"])
        .env(HOME, home)
        .status();
    match status.as_ref().ok().and_then(ExitStatus::code) {
        Some(code) if [GRANTED, BUSY].contains(&code) => code,
        _ => panic!(
            "NOT TESTED: {container:?} cannot be run here ({status:?}); this test needs the right to make \
             mount and time namespaces (run it as root)"
        ),
    }
}

/// Runs a check with the host, and with containers that see another boot id or another uptime.
fn with_containers(check: impl Fn(&dyn Fn(&Path) -> i32, &dyn Fn(&Path) -> i32, &str)) {
    let (one, two) = (boot_id("1"), boot_id("2"));
    let boot_id = |file: &TempDir, home: &Path| {
        let file = file.path().join("boot_id");
        let file = file.to_string_lossy();
        tried_in(&["unshare", "--mount", "sh", "-c", BOOT_ID_OF_ITS_OWN, "sh", &file], home)
    };
    let time =
        |offset: &str, home: &Path| tried_in(&["unshare", "--time", "--boottime", offset], home);
    let host = |home: &Path| tried_in(&["env"], home);
    let in_one = |home: &Path| boot_id(&one, home);
    let in_two = |home: &Path| boot_id(&two, home);
    let ahead = |home: &Path| time("100000", home);
    let behind = |home: &Path| time("-1", home);
    check(&host, &host, "the host twice");
    check(&host, &in_one, "the host and a container");
    check(&in_one, &host, "a container and the host");
    check(&in_one, &in_two, "two containers");
    check(&host, &ahead, "the host and a namespace ahead");
    check(&ahead, &host, "a namespace ahead and the host");
    check(&behind, &ahead, "a namespace behind and one ahead");
    check(&ahead, &behind, "a namespace ahead and one behind");
}

fn boot_id(digit: &str) -> TempDir {
    let home = tempdir().expect("a directory");
    let id = "00000000-0000-4000-8000-000000000000".replace('0', digit);
    std::fs::write(home.path().join("boot_id"), id).expect("written");
    home
}

#[test]
fn s3_containers_of_one_kernel_exclude_each_other() {
    with_containers(|first, second, who| {
        let home = tempdir().expect("a directory");
        assert_eq!(first(home.path()), GRANTED, "{who}");
        assert_eq!(second(home.path()), BUSY, "{who}: both hold the lock");
    });
}
