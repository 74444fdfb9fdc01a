//! Refusals by the operating system, by real mounts and rights, and their messages.
//!
//! The namespaces are real, made by `unshare`. If that fails, these tests fail and say so.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::error::Error;
use std::fs;
use std::iter::successors;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lock_core::{LockClient, LockError, LockRequest};
use lock_file::FileBackend;
use tempfile::tempdir;

/// Variable with the role of a process of these tests, and the place of the locks.
const ROLE: &str = "LOCK_FILE_TEST_ROLE";
const HOME: &str = "LOCK_FILE_TEST_HOME";

/// Start of the line in which such a process reports its error.
const TOLD: &str = "told: ";

fn with_causes(error: &(dyn Error + 'static)) -> String {
    let chain = successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn home() -> PathBuf {
    std::env::var_os(HOME).expect("a directory").into()
}

/// Plays the role of a process of these tests.
#[tokio::test]
async fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let told = match role.as_str() {
        "tries" => tries(&home()).await,
        "runs out of room" => runs_out_of_room(&home()).await,
        role => panic!("no part is called {role}"),
    };
    println!("{TOLD}{}", told.map_or_else(|error| with_causes(&error), |()| "granted".to_owned()));
}

async fn tries(home: &Path) -> Result<(), LockError> {
    let locks = LockClient::new(FileBackend::open(home)?);
    locks.acquire("a").await.map(drop)
}

/// Holds a lock, fills the file system, and asks for another lock until there is space again.
async fn runs_out_of_room(home: &Path) -> Result<(), LockError> {
    let locks = LockClient::new(FileBackend::open(home)?);
    let held = locks.acquire(LockRequest::new("held").ttl(Duration::from_secs(60))).await?;
    let ballast = home.join("ballast");
    let full = fs::write(&ballast, vec![0; 1 << 20]).expect_err("a small file system");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    let refused = locks.try_acquire("a").await.expect_err("no room");
    assert!(refused.is_transient(), "{refused}");
    println!("refused: {}", with_causes(&refused));
    held.extend(Duration::from_secs(60)).await.expect("a hold that is there needs no room");
    fs::remove_file(ballast).expect("removed");
    locks.acquire("a").await?.release().await?;
    held.release().await
}

/// Plays a role in a process that is started by these words; returns its whole output.
fn said(role: &str, through: &[&str], home: &Path) -> String {
    let program = std::env::current_exe().expect("a path");
    let done = Command::new(through[0])
        .args(&through[1..])
        .arg(program)
        .args(["--exact", "plays_its_role", "--nocapture"])
        .env(ROLE, role)
        .env(HOME, home)
        .output()
        .expect("NOT TESTED: `unshare` is not installed");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        said.contains(TOLD),
        "NOT TESTED, or it ended early: {through:?} needs the right to make namespaces (run it as root)\n\
         {said}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    said
}

/// Runs the role in a new mount namespace, after this shell command, in which `$1` is the directory.
fn said_after(command: &str, role: &str, home: &Path) -> String {
    let script = format!("{command} && shift && exec \"$@\"");
    let path = home.to_string_lossy();
    let through = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"];
    said(role, &[&through[..], &[&path]].concat(), home)
}

/// The process owns the directory and has no other rights: its user namespace maps no other user.
#[test]
fn c15_a_directory_without_rights_is_named() {
    let above = tempdir().expect("a directory");
    let set_mode = |mode| {
        fs::set_permissions(above.path(), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    set_mode(0o500);
    let unmapped = ["unshare", "--user"];
    let path = above.path().join("locks");
    let told = said("tries", &unmapped, &path);
    assert!(told.contains(&format!("cannot create {}", path.display())), "{told}");
    assert!(told.contains("has to be able to write") && told.contains("os error 13"), "{told}");
    let told = said("tries", &unmapped, above.path());
    assert!(told.contains("cannot use") && told.contains("os error 13"), "{told}");
    set_mode(0o700);
}

#[test]
fn c15_a_read_only_mount_is_named() {
    let home = tempdir().expect("a directory");
    let read_only = r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1""#;
    let told = said_after(read_only, "tries", home.path());
    assert!(told.contains(&*home.path().to_string_lossy()), "{told}");
    assert!(told.contains("Read-only file system"), "{told}");
}

#[test]
fn c15_a_full_disk_is_a_passing_failure_and_holds_go_on() {
    let home = tempdir().expect("a directory");
    for size in ["size=64k", "size=64k,nr_inodes=3"] {
        let full = format!(r#"mount -t tmpfs -o {size},mode=0700 none "$1""#);
        let told = said_after(&full, "runs out of room", home.path());
        assert!(told.contains("told: granted"), "{told}");
        assert!(told.contains("\"a\"") && told.contains("No space left"), "{told}");
    }
}

#[test]
fn c15_a_machine_without_proc_is_refused() {
    let home = tempdir().expect("a directory");
    let told = said_after("mount -t tmpfs none /proc", "tries", home.path());
    assert!(told.contains("uptime from Linux") && told.contains("another backend"), "{told}");
}

#[test]
fn c15_a_path_that_is_too_long_is_named() {
    let home = tempdir().expect("a directory");
    let path = home.path().join("x".repeat(256));
    let refused = FileBackend::open(&path).expect_err("too long");
    assert!(!refused.is_transient(), "{refused}");
    let told = with_causes(&refused);
    assert!(told.contains("File name too long"), "{told}");
}
