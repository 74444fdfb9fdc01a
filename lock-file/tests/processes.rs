//! Processes that take turns, some of which are killed during their turn.

#![allow(clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lock_core::{FencingToken, LockClient, LockRequest};
use lock_file::FileBackend;

/// Variable that makes a process of this test take turns, with the directory of the locks.
const HOME: &str = "LOCK_FILE_TEST_HOME";

/// Delay of the others after the death of a holder.
const TTL: Duration = Duration::from_millis(50);

/// Begins the line of a token that was written down within its hold.
const CONFIRMED: &str = "confirmed ";

/// Life of a process that nobody kills, because the test itself was killed.
const LIFE: Duration = Duration::from_secs(60);

/// Acquires the lock repeatedly until it is killed, and writes down each token while it holds. Every other hold
/// takes a while, so that some processes are killed as holders, and some during a change of the record. A token that
/// is written down within its hold is confirmed.
#[tokio::main(flavor = "current_thread")]
async fn take_turns(home: &Path) {
    let locks = LockClient::new(FileBackend::open(home.join("locks")).expect("opens"));
    let mut log = OpenOptions::new();
    let mut log = log.append(true).create(true).open(home.join("log")).expect("opens");
    let born = Instant::now();
    while born.elapsed() < LIFE {
        let guard = locks.acquire(LockRequest::new("a").ttl(TTL)).await.expect("acquired");
        let line = format!("{}\n", guard.token());
        log.write_all(line.as_bytes()).expect("written");
        if guard.token().get() % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // On a busy machine the short TTL may be over.
        if guard.is_held() {
            log.write_all(format!("{CONFIRMED}{line}").as_bytes()).expect("written");
        }
        guard.release_confirmed().await.expect("an answer");
    }
}

/// Runs this test as a process that takes turns.
fn spawn(home: &Path) -> Child {
    let program = std::env::current_exe().expect("a path");
    Command::new(program)
        .args(["--exact", "killed_processes_leave_whole_records_and_growing_tokens"])
        .env(HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("spawned")
}

/// Returns the tokens that were written down, in this order, and those of them that were confirmed.
fn tokens(home: &Path) -> (Vec<FencingToken>, BTreeSet<FencingToken>) {
    let log = std::fs::read_to_string(home.join("log")).unwrap_or_default();
    let token = |text: &str| text.parse().expect("a token");
    let (mut written, mut confirmed) = (Vec::new(), BTreeSet::new());
    for line in log.lines() {
        match line.strip_prefix(CONFIRMED) {
            Some(text) => drop(confirmed.insert(token(text))),
            None => written.push(token(line)),
        }
    }
    (written, confirmed)
}

/// Waits until the processes have taken `turns` more turns.
fn wait_for_turns(home: &Path, turns: usize) {
    let (before, started) = (tokens(home).0.len(), Instant::now());
    while tokens(home).0.len() < before + turns {
        assert!(started.elapsed() < Duration::from_secs(20), "nobody gets the lock");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_processes_leave_whole_records_and_growing_tokens() {
    if let Some(home) = std::env::var_os(HOME) {
        return take_turns(Path::new(&home));
    }
    let home = tempfile::tempdir().expect("a directory");
    let home = home.path();
    let mut processes: Vec<Child> = (0..4).map(|_| spawn(home)).collect();
    for round in 0..30 {
        wait_for_turns(home, 5);
        let victim = &mut processes[round % 4];
        victim.kill().expect("killed");
        victim.wait().expect("gone");
        *victim = spawn(home);
    }
    for mut process in processes {
        process.kill().expect("killed");
        process.wait().expect("gone");
    }
    let (written, confirmed) = tokens(home);
    assert_eq!(BTreeSet::from_iter(&written).len(), written.len(), "a token was granted twice");
    let in_time = written.iter().filter(|token| confirmed.contains(token));
    assert!(in_time.is_sorted_by(|a, b| a < b), "a token was granted too late");
    assert!(written.len() >= 150);
}
