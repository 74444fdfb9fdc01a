//! The files of recorded runs.

use lock_core::backend::{Record, Recording};
use lock_core::{Lease, Occurrence};

use super::*;

/// Returns a record with the shortest life.
fn record(name: &str, owner: OwnerId, token: FencingToken, occurrence: &str) -> Record {
    recorded_for(Duration::from_millis(10), name, owner, token, occurrence)
}

fn recorded_for(
    remember: Duration,
    name: &str,
    owner: OwnerId,
    token: FencingToken,
    occurrence: &str,
) -> Record {
    let text = format!("lease1:{}:{token}:1000:{name}", owner.expose());
    let occurrence = Occurrence::new(occurrence).expect("an occurrence");
    let lease = Lease::import(&text).expect("a lease");
    Record::new(&lease, occurrence, remember).expect("a good span")
}

/// Returns the files in the folder of the only lock with recorded runs.
fn files(home: &TempDir) -> Vec<PathBuf> {
    let of = |folder: PathBuf| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("readable");
        entries.map(|entry| entry.expect("readable").path()).collect()
    };
    of(of(home.path().join("runs")).pop().expect("a folder"))
}

/// C42: a folder that cannot be read does not show that nothing ran.
#[tokio::test]
async fn c42_records_that_cannot_be_listed_are_an_error() {
    let (home, lock) = home();
    let held = claim("a");
    let token = granted(&lock, &held).await.token;
    assert_eq!(lock.runs(&held.name, None).await.expect("no folder yet"), []);
    let day = Duration::from_secs(24 * 60 * 60);
    let run = recorded_for(day, "a", held.owner, token, "monday");
    assert_eq!(lock.record(&run).await.expect("an answer"), Recording::Recorded);
    let folder = files(&home)[0].parent().expect("a folder").to_owned();
    fs::remove_dir_all(&folder).expect("removed");
    fs::write(&folder, "no folder").expect("written");
    let refused = lock.runs(&held.name, None).await.expect_err("it is no folder");
    assert!(refused.to_string().contains(&*folder.to_string_lossy()), "{refused}");
}

/// C42, R1: outdated records are removed when others are made.
#[tokio::test]
async fn c42_old_records_make_room() {
    let (home, lock) = home();
    let held = claim("a");
    let token = granted(&lock, &held).await.token;
    for run in 0..40 {
        let recorded = lock.record(&record("a", held.owner, token, &format!("{run}"))).await;
        assert_eq!(recorded.expect("an answer"), Recording::Recorded);
    }
    // These records are outdated by now, or soon.
    for _ in 0..1_000 {
        lock.record(&record("a", held.owner, token, "last")).await.expect("an answer");
        if files(&home).len() <= 2 {
            return;
        }
    }
    panic!("{} files are left", files(&home).len());
}

/// C42: a file that is no record of the run counts as no run, and the error names it.
#[tokio::test]
async fn c42_what_is_no_record_is_named() {
    let (home, lock) = home();
    let held = claim("a");
    let token = granted(&lock, &held).await.token;
    lock.record(&recorded_for(Duration::from_secs(60), "a", held.owner, token, "x"))
        .await
        .expect("an answer");
    let file = files(&home).pop().expect("a record");
    for content in [
        "", "run-1\na\nx\n", "run-1\na\ny\n1\n1", "run-1\nb\nx\n1\n1", "run-1\na\nx\n0\n1",
        "run-1\na\nx\n1\n1\nmore", "run-2\na\nx\n1\n1",
    ] {
        fs::write(&file, content).expect("written");
        let occurrence = Occurrence::new("x").expect("an occurrence");
        let refused = lock.recorded(&held.name, &occurrence).await.expect_err("no record");
        assert!(refused.to_string().contains(&file.display().to_string()), "{refused}");
    }
}

/// C42: a process that is killed before it puts its record in place has recorded nothing.
#[tokio::test]
async fn c42_a_record_that_was_never_put_in_place_is_not_listed() {
    let (home, lock) = home();
    let held = claim("a");
    let token = granted(&lock, &held).await.token;
    let record = recorded_for(Duration::from_secs(60), "a", held.owner, token, "x");
    lock.record(&record).await.expect("an answer");
    let file = files(&home).pop().expect("a record");
    fs::rename(&file, file.with_file_name(".leasehold-0123456789abcdef.tmp")).expect("renamed");
    let runs = lock.runs(&held.name, None).await.expect("an answer");
    assert!(runs.is_empty(), "{runs:?}");
}
