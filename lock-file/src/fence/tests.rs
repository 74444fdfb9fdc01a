//! The fence against stale holders, crashes and foreign files.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};
use tokio::time::timeout;

use super::*;

fn home() -> (TempDir, FileFence) {
    let home = tempdir().expect("a directory");
    let fence = FileFence::open(home.path().join("fence")).expect("opens");
    (home, fence)
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("a token")
}

fn is_stale(result: Result<(), FenceError>, by: u64) -> bool {
    matches!(result, Err(FenceError::Stale { seen, .. }) if seen == token(by))
}

fn identity_at(path: &Path) -> String {
    LockedFence::open(path).expect("locked").file.identity().expect("readable")
}

#[tokio::test]
async fn c35_a_check_remembers_nothing() {
    let (_home, fence) = home();
    fence.check(token(9)).await.expect("nothing was seen");
    fence.advance(token(5)).await.expect("a check does not advance");
    fence.check(token(5)).await.expect("equal passes");
    assert!(is_stale(fence.check(token(4)).await, 5));
}

#[tokio::test]
async fn c24_a_fence_accepts_equal_and_greater_tokens_only() {
    let (home, fence) = home();
    for accepted in [5, 5, 7] {
        fence.advance(token(accepted)).await.expect("not stale");
    }
    assert!(is_stale(fence.advance(token(6)).await, 7));
    let reopened = FileFence::open(home.path().join("fence")).expect("opens");
    assert!(is_stale(reopened.advance(token(6)).await, 7));
    reopened.advance(token(8)).await.expect("not stale");
    assert!(is_stale(fence.advance(token(7)).await, 8));
}

/// The stranger could write a token of the past, and the fence would let stale holders in.
#[test]
fn s1_a_fence_that_a_stranger_made_in_public_is_refused() {
    let home = tempdir().expect("a directory");
    let path = home.path().join("fence");
    fs::write(&path, "").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a mode");
    std::os::unix::fs::chown(&path, Some(54321), None)
        .expect("NOT TESTED: this test gives a file away, as root alone may");
    FileFence::open(&path).expect("opens a fence that others share with us");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
    let refused = FileFence::open(&path).map(drop).expect_err("refused").to_string();
    assert!(refused.contains("user 54321 has made") && refused.contains("fence"), "{refused}");
}

/// A crash of the machine would take a token that was not synced, and the fence would accept an older one.
#[test]
fn c24_a_token_counts_once_it_is_synced() {
    let (home, fence) = home();
    let syncs = AtomicU64::new(0);
    let advance = |fence: &FileFence, value, works| {
        let sync = |file: &LockedFile| {
            syncs.fetch_add(1, Ordering::Relaxed);
            let broken =
                || missing(&StateFile { path: fence.path.to_path_buf(), of: StateOf::Fence });
            if works { file.sync() } else { Err(broken()) }
        };
        let mut locked = LockedFence::open(&fence.path).expect("opens");
        locked.remember(token(value), &fence.synced, sync)
    };
    advance(&fence, 5, false).expect_err("the disk fails");
    advance(&fence, 5, true).expect("it works again");
    assert_eq!(syncs.load(Ordering::Relaxed), 2, "the token is in the file, and not synced");
    advance(&fence.clone(), 5, false).expect("no sync is due");
    // The process with the first fence may have died before its sync.
    let other = FileFence::open(home.path().join("fence")).expect("opens");
    advance(&other, 5, false).expect_err("the disk fails");
    advance(&other, 5, true).expect("it works again");
    assert_eq!(syncs.load(Ordering::Relaxed), 4);
    advance(&fence, 7, true).expect("a new token");
    advance(&other, 7, true).expect("the same");
    assert_eq!(syncs.load(Ordering::Relaxed), 6, "once for each fence");
}

#[tokio::test]
async fn a_stale_write_leaves_the_target_and_a_fresh_one_advances_the_fence() {
    let (home, fence) = home();
    let target = home.path().join("target");
    fence.write(token(5), &target, b"five").await.expect("written");
    assert!(is_stale(fence.advance(token(4)).await, 5));
    fence.advance(token(6)).await.expect("not stale");
    assert!(is_stale(fence.write(token(5), &target, b"stale").await, 6));
    assert_eq!(fs::read(&target).expect("readable"), b"five");
    fence.write(token(6), &target, b"six").await.expect("written");
    assert_eq!(fs::read(&target).expect("readable"), b"six");
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 2, "nothing is left over");
}

/// S1: two containers may have different fences at one path, and write beside each other in a shared directory.
#[test]
fn s1_a_fence_is_known_by_its_file() {
    let (home, _fence) = home();
    let [path, moved, alias] = ["fence", "moved", "alias"].map(|name| home.path().join(name));
    let identity = identity_at(&path);
    fs::rename(&path, &moved).expect("moved");
    fs::hard_link(&moved, &alias).expect("linked");
    FileFence::open(&path).expect("opens");
    assert_ne!(identity_at(&path), identity);
    assert_eq!(identity_at(&alias), identity);
}

#[tokio::test]
async fn a_target_keeps_its_permissions_and_leftovers_of_a_crash_are_cleared() {
    let (home, fence) = home();
    let target = home.path().join("target");
    fs::write(&target, "old").expect("written");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o440)).expect("set");
    let writer = identity_at(&home.path().join("fence"));
    let torn = Replacement::write(&writer, &target, b"torn", Privacy::Usual);
    std::mem::forget(torn.expect("written beside"));
    fence.write(token(1), &target, b"new").await.expect("written");
    assert_eq!(fs::read(&target).expect("readable"), b"new");
    let mode = fs::metadata(&target).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o440);
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 2);
}

#[tokio::test]
async fn a_target_that_cannot_be_written_is_an_error_and_stays() {
    let (home, fence) = home();
    let nowhere = home.path().join("no/such/directory/target");
    let refused = fence.write(token(1), &nowhere, b"x").await;
    let Err(FenceError::Backend(error)) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.outcome() == Outcome::NotApplied && !error.is_transient());
    let directory = home.path().join("directory");
    fs::create_dir(&directory).expect("made");
    assert!(fence.write(token(1), &directory, b"x").await.is_err());
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 2, "nothing is left over");
}

#[tokio::test]
async fn a_file_that_is_not_a_fence_is_refused_and_left_alone() {
    let (home, fence) = home();
    let path = home.path().join("fence");
    fs::write(&path, "{\"precious\": true}").expect("written");
    let Err(FenceError::Backend(error)) = fence.advance(token(1)).await else {
        panic!("taken for a fence");
    };
    assert!(!error.is_transient() && error.to_string().contains("a file of its own"), "{error}");
    assert_eq!(fs::read(&path).expect("readable"), b"{\"precious\": true}");

    fs::remove_file(&path).expect("removed");
    let gone = fence.advance(token(1)).await;
    assert!(matches!(gone, Err(FenceError::Backend(error)) if !error.is_transient()));
    assert!(!path.exists(), "not made anew");
    assert!(FileFence::open(home.path()).is_err(), "a directory");
}

#[tokio::test]
async fn a_writer_that_is_stopped_costs_the_others_a_bounded_time() {
    let (home, fence) = home();
    let stopped = File::open(home.path().join("fence")).expect("opens");
    stopped.lock().expect("locked");
    let started = Instant::now();
    let Err(FenceError::Backend(error)) = fence.advance(token(1)).await else {
        panic!("went past it");
    };
    assert!(error.is_transient() && error.outcome() == Outcome::NotApplied);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_write_that_was_given_up_before_it_began_never_happens() {
    let (home, fence) = home();
    let target = home.path().join("target");
    let stopped = File::open(home.path().join("fence")).expect("opens");
    stopped.lock().expect("locked");
    let write = fence.write(token(1), &target, b"ghost");
    assert!(timeout(Duration::from_millis(20), write).await.is_err());
    drop(stopped);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!target.exists());
}

/// Sets a flag when it is dropped, also by unwinding.
struct Set<'a>(&'a AtomicBool);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers with separate tokens, in any order. The file has the content of the greatest token in the end, and no
/// reader ever sees a partial file.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fenced_writes_are_atomic_and_in_token_order() {
    let (home, fence) = home();
    let target = home.path().join("target");
    fs::write(&target, "").expect("written");
    let mut writers = tokio::task::JoinSet::new();
    for value in 1..=40 {
        let (fence, target) = (fence.clone(), target.clone());
        writers.spawn(async move {
            let contents = vec![value as u8; 100_000];
            let written = fence.write(token(value), &target, &contents).await;
            assert!(matches!(written, Ok(()) | Err(FenceError::Stale { .. })), "{written:?}");
        });
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Stops the reader even if a writer fails.
        let _stop = Set(&done);
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let contents = fs::read(&target).expect("readable");
                let first = contents.first().copied().unwrap_or_default();
                assert!(contents.is_empty() || contents.len() == 100_000);
                assert!(contents.iter().all(|byte| *byte == first), "torn");
                assert!(last <= first, "went back");
                last = first;
            }
        });
        tokio::task::block_in_place(|| {
            let finished = async {
                while writers.join_next().await.transpose().expect("no panic").is_some() {}
            };
            tokio::runtime::Handle::current().block_on(finished);
        });
    });
    assert_eq!(fs::read(&target).expect("readable")[0], 40);
}
