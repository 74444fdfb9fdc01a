//! Locks that several processes hold: readers beside writers, and permits with slots.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_testkit::child;

use super::{Fixture, client, count, crowd, request, variable};

const READERS: usize = 10;
const WRITERS: usize = 2;

/// Number of writes of each writer.
const ROUNDS: u64 = 15;

const WORKERS: usize = 10;
const PERMITS: u16 = 3;

/// Adds a note to the common log of all processes.
fn log(note: &str) {
    let path = Path::new(&variable("FOLDER")).join("log");
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("opens");
    file.write_all(format!("{note}\n").as_bytes()).expect("written");
}

/// Returns the two files that hold the same number, except during a write.
fn halves(folder: &Path) -> [PathBuf; 2] {
    [folder.join("left"), folder.join("right")]
}

/// Reads both halves, with a pause between them, until all has been written.
pub(super) async fn read() {
    let (client, folder, me) = (client().await, PathBuf::from(variable("FOLDER")), variable("ME"));
    let [left, right] = halves(&folder);
    child::say("ready");
    while !folder.join("stop").exists() {
        let guard = client.acquire(request().shared()).await.expect("its turn comes");
        log(&format!("reads {me}"));
        let seen = count(&left);
        tokio::time::sleep(Duration::from_millis(3)).await;
        if count(&right) != seen {
            child::say("torn");
        }
        guard.release().await.expect("held to the end");
    }
    child::say("whole");
}

/// Writes both halves, with a pause between them.
pub(super) async fn write() {
    let (client, folder, me) = (client().await, PathBuf::from(variable("FOLDER")), variable("ME"));
    for _ in 0..ROUNDS {
        let queues = format!("queues {me}");
        let told = std::sync::Once::new();
        let request = request().on_wait(move |seen| {
            if seen.position.is_some() {
                told.call_once(|| log(&queues));
            }
        });
        let guard = client.acquire(request).await.expect("its turn comes");
        log(&format!("writes {me}"));
        let [left, right] = halves(&folder);
        let next = (count(&left) + 1).to_string();
        fs::write(left, &next).expect("written");
        tokio::time::sleep(Duration::from_millis(2)).await;
        fs::write(right, &next).expect("written");
        guard.release().await.expect("held to the end");
    }
    child::say("done");
}

/// Takes a slot again and again, and checks that nobody else has it.
pub(super) async fn work() {
    let (client, folder) = (client().await, PathBuf::from(variable("FOLDER")));
    for _ in 0..20 {
        let guard = client.acquire(request().permits(1, PERMITS)).await.expect("its turn comes");
        let slot = folder.join(format!("slot-{}", guard.slots()[0]));
        let mine = OpenOptions::new().write(true).create_new(true).open(&slot);
        tokio::time::sleep(Duration::from_millis(2)).await;
        match mine {
            Ok(_) => fs::remove_file(slot).expect("removed"),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => child::say("taken"),
            Err(error) => panic!("{error}"),
        }
        assert!(guard.slots()[0] < PERMITS);
        guard.release().await.expect("held to the end");
    }
    child::say("done");
}

/// Takes a slot, prints it, and keeps it until it is killed.
pub(super) async fn keep_a_slot() {
    let guard =
        client().await.acquire(request().permits(1, PERMITS)).await.expect("its turn comes");
    child::say(&guard.slots()[0].to_string());
    std::future::pending::<()>().await;
    drop(guard);
}

/// C33, C34, S4: readers never see a partial write, no write is lost, and no reader gets in twice while a writer
/// waits.
async fn ten_readers_and_two_writers(fixture: Fixture) {
    let _turn = crowd().await;
    let ttl = Duration::from_secs(30);
    let spawn = |role: &'static str| {
        let fixture = &fixture;
        move |i: usize| fixture.spawn_with(role, ttl, &[("ME", &i.to_string())])
    };
    let mut readers: Vec<_> = (0..READERS).map(spawn("reader")).collect();
    for said in join_all(readers.iter_mut().map(child::Child::line)).await {
        assert_eq!(said, "ready");
    }
    let mut writers: Vec<_> = (0..WRITERS).map(spawn("writer")).collect();
    for said in join_all(writers.iter_mut().map(child::Child::line)).await {
        assert_eq!(said, "done");
    }
    fs::write(fixture.path("stop"), "").expect("written");
    for said in join_all(readers.iter_mut().map(child::Child::line)).await {
        assert_eq!(said, "whole");
    }
    assert_eq!(count(&fixture.path("left")), WRITERS as u64 * ROUNDS);
    let log = fs::read_to_string(fixture.path("log")).expect("readable");
    let notes: Vec<&str> = log.lines().collect();
    let waits = (0..WRITERS).map(|writer| nobody_passes(&notes, writer)).sum::<usize>();
    assert!(waits > 0, "no writer ever waited");
}

/// Checks each wait of a writer, and returns their number. During one wait a reader may be noted once: it was let in
/// before the writer queued, or queued before it. A reader that is noted twice asked after the first note.
fn nobody_passes(notes: &[&str], writer: usize) -> usize {
    let (queues, writes) = (format!("queues {writer}"), format!("writes {writer}"));
    let mut waits = 0;
    let mut since = notes;
    while let Some(start) = since.iter().position(|note| *note == queues) {
        since = &since[start + 1..];
        let end = since.iter().position(|note| *note == writes).expect("its turn came");
        let mut readers: Vec<_> =
            since[..end].iter().filter(|note| note.starts_with("reads")).collect();
        let all = readers.len();
        readers.sort_unstable();
        readers.dedup();
        assert_eq!(readers.len(), all, "a reader passed a writer: {:?}", &since[..end]);
        waits += 1;
    }
    waits
}

on_each_store!(c34_ten_readers_and_two_writers: ten_readers_and_two_writers);

/// C33, C36: at most three holders at once, and no slot twice.
async fn ten_processes_with_three_permits(fixture: Fixture) {
    let _turn = crowd().await;
    let mut workers: Vec<_> =
        (0..WORKERS).map(|_| fixture.spawn("worker", Duration::from_secs(30))).collect();
    for said in join_all(workers.iter_mut().map(child::Child::line)).await {
        assert_eq!(said, "done");
    }
}

on_each_store!(c36_ten_processes_with_three_permits: ten_processes_with_three_permits);

/// C38: the slot of a killed process is free after its TTL, and the other holds go on.
async fn a_killed_holder_frees_its_slot(fixture: Fixture) {
    let ttl = Duration::from_secs(4);
    let mut keepers: Vec<_> = (0..PERMITS).map(|_| fixture.spawn("slot keeper", ttl)).collect();
    let slots = join_all(keepers.iter_mut().map(child::Child::line)).await;
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["0", "1", "2"]);
    let mut next = fixture.spawn("slot keeper", ttl);
    keepers[1].kill().await;
    let killed = Instant::now();
    assert_eq!(next.line().await, slots[1], "the one slot that is free");
    let waited = killed.elapsed();
    assert!(waited < fixture.bound(ttl), "waited {waited:?}");
    let client = leasehold::connect(&fixture.url).await.expect("a connection");
    let holders = client.admin().inspect(super::NAME).await.expect("an answer").holders;
    assert_eq!(holders.len(), usize::from(PERMITS), "{holders:?}");
}

on_each_store!(c38_a_killed_holder_frees_its_slot: a_killed_holder_frees_its_slot);
