//! Several processes and one lock.

use std::fs;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_testkit::eventually;
use rand::seq::SliceRandom;
use rustix::process::Signal;

use crate::shell::{Output, Shell, send};
use crate::store::{File, Store};
use crate::{LIMIT, SLACK};

const PROCESSES: usize = 10;
const INCREMENTS: usize = 12;

/// Reads a number, writes the next one, and notes its token.
const INCREMENT: &str = "n=$(cat n); echo $((n + 1)) > n; echo $LEASEHOLD_TOKEN >> tokens";

/// Returns the sum after ten processes incremented a file 12 times each, from 0.
async fn count(shell: &Shell, increment: &str) -> usize {
    fs::write(shell.file("n"), "0\n").expect("a file");
    let script = format!("for i in $(seq {INCREMENTS}); do {increment} || exit 1; done");
    let shells = (0..PROCESSES).map(|_| Output::of(shell.command("sh", &["-c", &script])));
    for output in join_all(shells).await {
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    shell.read("n").trim().parse().unwrap_or(0)
}

pub(crate) async fn s4_no_increment_is_lost(store: &impl Store) {
    let shell = Shell::of(store);
    let counted = count(&shell, &format!("$L run counter -- sh -c '{INCREMENT}'")).await;
    assert_eq!(counted, PROCESSES * INCREMENTS);
    let tokens = shell.read("tokens");
    let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().expect("a token")).collect();
    assert_eq!(tokens.len(), PROCESSES * INCREMENTS);
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "tokens do not grow");
}

/// The positive control: without a lock, increments are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_increments_without_a_lock_are_lost() {
    let shell = Shell::of(&File::start());
    let counted = count(&shell, "n=$(cat n); sleep 0.001; echo $((n + 1)) > n").await;
    assert!(counted < PROCESSES * INCREMENTS, "the harness is blind");
}

pub(crate) async fn c29_a_foreign_holder_keeps_us_out_and_we_keep_it_out(store: &impl Store) {
    let shell = Shell::of(store);
    assert!(store.foreign_take("theirs").await);
    let refused = shell.run(&["run", "--no-wait", "theirs", "--", "touch", "entered"]).await;
    assert_eq!((refused.code, &*refused.stdout), (75, ""), "{}", refused.stderr);
    assert!(!shell.file("entered").exists());

    let mut held = shell.hold(&[], "ours", "exec sleep 60").await;
    assert!(!store.foreign_take("ours").await, "two holders");
    held.send(Signal::TERM);
    held.ended().await;
    assert!(store.foreign_take("ours").await, "it was not released");
}

pub(crate) async fn c28_the_next_run_is_in_after_the_ttl_of_a_killed_one<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let ttl = Duration::from_secs(2);
    let mut held = shell.hold(&["--ttl", "2s"], "a", "exec sleep 60").await;
    let command = shell.pid("pid").await;
    held.send(Signal::KILL);
    send(command, Signal::KILL);
    let killed = Instant::now();
    held.ended().await;
    let next = shell.run(&["run", "a", "--", "true"]).await;
    let took = killed.elapsed();
    assert_eq!(next.code, 0, "{}", next.stderr);
    let bound = ttl + S::OUTLASTS + Duration::from_secs(1) + SLACK;
    assert!(took < bound, "in after {took:?}");
}

pub(crate) async fn c28_killed_waiters_stall_nobody(store: &impl Store) {
    let shell = Shell::of(store);
    let mut holder = shell.hold(&[], "a", "while [ ! -e go ]; do sleep 0.01; done").await;
    let mut waiters = Vec::new();
    for _ in 0..10 {
        waiters.push(shell.start(&["-v", "run", "a", "--", "sh", "-c", "date +%s%N >> entries"]));
    }
    for waiter in &waiters {
        waiter.waits().await;
    }
    waiters.shuffle(&mut rand::rng());
    let mut rest = waiters.split_off(waiters.len() / 2);
    waiters.iter().for_each(|victim| victim.send(Signal::KILL));
    let released = std::time::SystemTime::now();
    fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(holder.code().await, 0);
    eventually("the rest get in", LIMIT, async || shell.read("entries").lines().count() == 5).await;
    for waiter in &mut rest {
        assert_eq!(waiter.code().await, 0, "{}", waiter.stderr());
    }
    let released = released.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    let mut last = released as u64;
    for entry in shell.read("entries").lines() {
        let entry: u64 = entry.parse().expect("nanoseconds");
        let gap = Duration::from_nanos(entry.saturating_sub(last));
        assert!(gap < Duration::from_secs(3) + SLACK, "stalled for {gap:?}");
        last = entry;
    }
}
