//! The backend against the contract, and against what happens to files.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, UNIX_EPOCH};

use lock_core::backend::Attempt;
use lock_core::{FencingToken, LockClient, LockError, LockRequest, Outcome, Wait};
use tempfile::{TempDir, tempdir};
use tokio::time::{sleep, timeout};

use super::*;
use crate::testing::{TTL, claim, claim_of, granted, is_busy, on, renewal};

const ZERO: fn() -> Duration = || Duration::ZERO;

fn home() -> (TempDir, FileBackend) {
    let home = tempdir().expect("a directory");
    let lock = FileBackend::open(home.path()).expect("opens");
    (home, lock)
}

/// The one file in the directory.
fn only_file(home: &TempDir) -> PathBuf {
    let mut entries = fs::read_dir(home.path()).expect("readable");
    let file = entries.next().expect("a file").expect("readable").path();
    assert!(entries.next().is_none(), "a single file");
    file
}

#[tokio::test]
async fn c16_a_repeated_attempt_finds_its_own_grant_for_a_full_ttl() {
    let home = tempdir().expect("a directory");
    let early = on(home.path(), "boot", || Duration::from_secs(100), ZERO);
    let later = on(home.path(), "boot", || Duration::from_secs(120), ZERO);
    let claim = claim("a");
    let first = granted(&early, &claim).await;
    let second = granted(&later, &claim).await;
    assert_eq!((second.token, second.ttl), (first.token, TTL));
    let state = later.inspect(&claim.name).await.expect("an answer");
    assert_eq!(state.holder.expect("held").ttl_left, Some(TTL));
}

#[tokio::test]
async fn c14_busy_says_what_is_known_of_the_holder() {
    let home = tempdir().expect("a directory");
    let early = on(home.path(), "boot", || Duration::from_secs(100), ZERO);
    let later = on(home.path(), "boot", || Duration::from_secs(110), ZERO);
    granted(&early, &claim("a")).await;
    let attempt = later.try_acquire(&claim("a"), None).await;
    let Attempt::Busy(seen) = attempt.expect("an answer") else {
        panic!("granted twice");
    };
    assert_eq!(seen.ttl_left, Some(Duration::from_secs(20)));
    assert_eq!(seen.holder.expect("a label").as_str(), "the test");
    assert_eq!((seen.position, seen.at), (None, None));
}

#[tokio::test]
async fn c45_a_holder_has_the_time_of_its_grant() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, || Duration::from_secs(1_800_000_000));
    let later = on(home.path(), "boot", || TTL / 2, || Duration::from_secs(1_800_000_015));
    let claim = claim("a");
    let token = granted(&start, &claim).await.token;
    later.extend(&renewal(&claim, token, TTL)).await.expect("an answer");
    let state = later.inspect(&claim.name).await.expect("an answer");
    let since = state.holder.expect("held").since;
    assert_eq!(since, Some(UNIX_EPOCH + Duration::from_secs(1_800_000_000)));
}

#[tokio::test]
async fn c22_tokens_grow_through_release_expiry_reboot_and_a_clock_set_back() {
    let home = tempdir().expect("a directory");
    let now = on(home.path(), "one", || TTL, || Duration::from_micros(1000));
    let back = on(home.path(), "one", || TTL, ZERO);
    let expired = on(home.path(), "one", || TTL * 2, ZERO);
    let rebooted = on(home.path(), "two", ZERO, ZERO);
    let mut tokens = Vec::new();
    let first = claim("a");
    tokens.push(granted(&now, &first).await.token.get());
    back.release(&first.name, first.owner).await.expect("done");
    tokens.push(granted(&back, &claim("a")).await.token.get());
    tokens.push(granted(&expired, &claim("a")).await.token.get());
    tokens.push(granted(&rebooted, &claim("a")).await.token.get());
    assert_eq!(tokens, [1000, 1001, 1002, 1003]);
}

#[tokio::test]
async fn c22_tokens_grow_when_the_files_are_lost_and_the_clock_goes_on() {
    let (home, lock) = home();
    let first = granted(&lock, &claim("a")).await.token;
    fs::remove_file(only_file(&home)).expect("removed");
    assert!(granted(&lock, &claim("a")).await.token > first);
}

#[tokio::test]
async fn a_reboot_ends_a_hold_though_the_clock_is_behind_its_deadline() {
    let home = tempdir().expect("a directory");
    let before = on(home.path(), "one", || Duration::from_secs(1000), ZERO);
    let after = on(home.path(), "two", || Duration::from_secs(3), ZERO);
    let claim = claim("a");
    let token = granted(&before, &claim).await.token;
    assert_eq!(after.inspect(&claim.name).await.expect("an answer").holder, None);
    let extended = after.extend(&renewal(&claim, token, TTL)).await;
    assert_eq!(extended.expect("an answer"), Extension::Lost);
    let released = after.release(&claim.name, claim.owner).await;
    assert_eq!(released.expect("an answer"), Release::NotHeld);
}

#[tokio::test]
async fn a_hold_ends_at_its_deadline_and_not_before() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, ZERO);
    let last = on(home.path(), "boot", || TTL - Duration::from_nanos(1), ZERO);
    let end = on(home.path(), "boot", || TTL, ZERO);
    let (first, second) = (claim("a"), claim("a"));
    granted(&start, &first).await;
    assert!(is_busy(&last, &second).await);
    granted(&end, &second).await;
    assert_eq!(end.release(&first.name, first.owner).await.expect("an answer"), Release::NotHeld);
}

#[tokio::test]
async fn c10_extending_never_shortens_and_never_recreates() {
    let (home, lock) = home();
    let claim = claim("a");
    let never = renewal(&claim, FencingToken::MAX, TTL);
    assert_eq!(lock.extend(&never).await.expect("an answer"), Extension::Lost);
    assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 0);

    let token = granted(&lock, &claim).await.token;
    let (short, long) = (renewal(&claim, token, TTL / 2), renewal(&claim, token, TTL * 2));
    let answers = lock.extend_all(&[long, short.clone()]).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
    assert_eq!(answers, [Extension::Extended(TTL * 2), Extension::Extended(TTL / 2)]);
    let state = lock.inspect(&claim.name).await.expect("an answer");
    assert!(state.holder.expect("held").ttl_left > Some(TTL));

    let released = lock.release(&claim.name, claim.owner).await;
    assert_eq!(released.expect("an answer"), Release::Released);
    assert_eq!(lock.extend(&short).await.expect("an answer"), Extension::Lost);
    assert_eq!(lock.inspect(&claim.name).await.expect("an answer").holder, None);
}

#[tokio::test]
async fn a_withdrawn_claim_is_given_back_and_refused_from_then_on() {
    let (_home, lock) = home();
    let (withdrawn, other) = (claim("a"), claim("a"));
    granted(&lock, &withdrawn).await;
    lock.clone().withdraw(&withdrawn.name, withdrawn.owner).await.expect("withdrawn");
    let refused = lock.try_acquire(&withdrawn, None).await.expect_err("refused");
    assert!(!refused.is_transient() && refused.outcome() == Outcome::NotApplied);
    granted(&lock, &other).await;
}

#[tokio::test]
async fn c19_an_attempt_that_was_given_up_before_it_began_never_happens() {
    let (home, lock) = home();
    let (given_up, other) = (claim("a"), claim("a"));
    granted(&lock, &other).await;
    lock.release(&other.name, other.owner).await.expect("released");
    let file = File::open(only_file(&home)).expect("opens");
    file.lock().expect("locked");
    let attempt = timeout(Duration::from_millis(20), lock.try_acquire(&given_up, None));
    assert!(attempt.await.is_err(), "the attempt waits for the file");
    file.unlock().expect("unlocked");
    sleep(Duration::from_millis(50)).await;
    assert_eq!(lock.inspect(&other.name).await.expect("an answer").holder, None);
}

#[tokio::test]
async fn c19_a_jammed_lock_costs_no_other() {
    const GIVEN_UP: usize = 100;
    let (home, lock) = home();
    let client = LockClient::new(lock.clone());
    client.acquire("a").await.expect("acquired").release().await.expect("released");
    let jam = File::open(only_file(&home)).expect("opens");
    let b = LockRequest::new("b").ttl(Duration::from_secs(15));
    let guard = client.acquire(b).await.expect("acquired");
    jam.lock().expect("locked");
    for _ in 0..GIVEN_UP {
        let attempt = timeout(Duration::from_millis(2), client.try_acquire("a"));
        assert!(attempt.await.is_err(), "the file of the lock is jammed");
    }
    drop(guard);
    let b = LockName::new("b").expect("a name");
    let is_free = async || lock.inspect(&b).await.expect("an answer").holder.is_none();
    let freed = async {
        while !is_free().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(4), freed).await.expect("given back long before its TTL is over");
    jam.unlock().expect("unlocked");
}

#[tokio::test]
async fn c02_names_are_data() {
    let (_home, lock) = home();
    let long = "ü".repeat(256);
    let names = [
        "a",
        "a/b",
        "a/",
        "/a",
        "..",
        "../a",
        "a:fence",
        "A",
        "{a}",
        "*",
        "a b",
        " ",
        "'\"",
        "🔒",
        "a.lock",
        "a\u{2028}b",
        "e\u{301}",
        "\u{e9}",
        &long,
    ];
    let mut claims = Vec::new();
    for name in names {
        claims.push(claim(name));
        granted(&lock, &claims[claims.len() - 1]).await;
    }
    let listed = lock.list("", usize::MAX).await.expect("an answer");
    let mut expected = names;
    expected.sort_unstable();
    assert!(listed.iter().map(|state| state.name.as_str()).eq(expected));
    for claim in claims {
        let released = lock.release(&claim.name, claim.owner).await;
        assert_eq!(released.expect("an answer"), Release::Released);
    }
}

#[tokio::test]
async fn list_filters_sorts_limits_and_skips_what_is_foreign() {
    let (home, lock) = home();
    for name in ["b:2", "a:3", "a:1", "a:2"] {
        granted(&lock, &claim(name)).await;
    }
    let free = claim("a:0");
    granted(&lock, &free).await;
    lock.release(&free.name, free.owner).await.expect("released");
    let copied = fs::read_dir(home.path()).expect("readable").next().expect("a file");
    let copy = home.path().join(format!("{}.lock", "0".repeat(64)));
    fs::copy(copied.expect("readable").path(), copy).expect("copied");
    fs::write(home.path().join("README"), "not a lock").expect("written");
    fs::create_dir(home.path().join("directory.lock")).expect("made");

    let names = async |prefix, limit| {
        let listed = lock.list(prefix, limit).await.expect("an answer");
        let names = listed.into_iter().map(|state| state.name.as_str().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("", 9).await, ["a:1", "a:2", "a:3", "b:2"]);
    assert_eq!(names("a:", 2).await, ["a:1", "a:2"]);
    assert!(names("a%", 9).await.is_empty());
}

#[tokio::test]
async fn c49_a_damaged_file_is_a_lasting_error_that_names_the_lock_and_the_remedy() {
    let (home, lock) = home();
    let claim = claim("precious");
    granted(&lock, &claim).await;
    let path = only_file(&home);
    for garbage in [&b"garbage"[..], &[1; 5000]] {
        fs::write(&path, garbage).expect("written");
        let error = lock.try_acquire(&claim, None).await.expect_err("damaged");
        assert!(!error.is_transient() && error.outcome() == Outcome::NotApplied);
        let text = error.to_string();
        assert!(text.contains("precious") && text.contains("remove the file"), "{text}");
        assert!(text.contains(&*path.to_string_lossy()), "{text}");
        assert!(error.found().is_some(), "what is there is no lock: {error}");
        let client = LockClient::new(lock.clone());
        for refused in
            [client.inspect("precious").await.map(drop), client.evict("precious").await.map(drop)]
        {
            assert!(matches!(refused, Err(LockError::NotALock { .. })), "{refused:?}");
        }
    }
    fs::write(&path, "").expect("emptied");
    granted(&lock, &claim).await;
}

#[tokio::test]
async fn an_error_escapes_what_a_name_hides() {
    let (home, lock) = home();
    let claim = claim("pay\u{202e}lla");
    granted(&lock, &claim).await;
    fs::write(only_file(&home), "garbage").expect("written");
    let text = lock.try_acquire(&claim, None).await.expect_err("damaged").to_string();
    assert!(text.contains("pay\\u{202e}lla") && !text.contains('\u{202e}'), "{text}");
}

#[tokio::test]
async fn the_file_of_another_lock_is_refused() {
    let (home, lock) = home();
    granted(&lock, &claim("a")).await;
    let a = only_file(&home);
    let b = claim("b");
    granted(&lock, &b).await;
    let mut paths = fs::read_dir(home.path()).expect("readable");
    let other = paths.find_map(|entry| Some(entry.ok()?.path()).filter(|path| *path != a));
    fs::copy(a, other.expect("the file of b")).expect("copied");
    let error = lock.release(&b.name, b.owner).await.expect_err("refused");
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test]
async fn c17_a_process_that_is_stopped_in_its_critical_section_costs_a_bounded_time() {
    let (home, lock) = home();
    let claim = claim("a");
    let token = granted(&lock, &claim).await.token;
    let stopped = File::open(only_file(&home)).expect("opens");
    stopped.lock().expect("locked");
    let renewal = renewal(&claim, token, TTL);
    let started = Instant::now();
    for answer in lock.extend_all(&vec![renewal; 20]).await {
        let error = answer.expect_err("stuck");
        assert!(error.is_transient() && error.outcome() == Outcome::NotApplied);
    }
    let error = lock.try_acquire(&claim, None).await.expect_err("stuck");
    assert!(error.is_transient() && error.outcome() == Outcome::NotApplied);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(stopped);
    assert_eq!(granted(&lock, &claim).await.token, token);
}

#[tokio::test]
async fn a_file_that_was_deleted_while_we_waited_for_it_is_not_used() {
    let (home, lock) = home();
    granted(&lock, &claim("a")).await;
    let deleted = File::open(only_file(&home)).expect("opens");
    deleted.lock().expect("locked");
    let (second, third) = (claim("a"), claim("a"));
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { granted(&lock, &second).await }
    });
    sleep(Duration::from_millis(50)).await;
    fs::remove_file(only_file(&home)).expect("deleted");
    drop(deleted);
    waiting.await.expect("granted in the new file");
    assert!(is_busy(&lock, &third).await);
}

/// Takes and gives back the lock `rounds` times; returns the tokens.
async fn take_turns(client: LockClient, rounds: usize, taken: &AtomicBool) -> Vec<FencingToken> {
    let mut tokens = Vec::new();
    for _ in 0..rounds {
        let guard = client.acquire("a").await.expect("acquired");
        assert!(!taken.swap(true, Ordering::SeqCst), "two holders");
        tokens.push(guard.token());
        tokio::task::yield_now().await;
        taken.store(false, Ordering::SeqCst);
        guard.release().await.expect("released");
    }
    tokens
}

#[test]
fn eight_clients_exclude_each_other_and_their_tokens_grow() {
    let (home, _lock) = home();
    let taken = AtomicBool::new(false);
    let turns = || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = LockClient::new(FileBackend::open(home.path()).expect("opens"));
            take_turns(client, 25, &taken).await
        })
    };
    let mut tokens: Vec<FencingToken> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(turns)).collect();
        let tokens = threads.into_iter().flat_map(|thread| {
            let tokens = thread.join().expect("no panic");
            assert!(tokens.is_sorted());
            tokens
        });
        tokens.collect()
    });
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 8 * 25, "no token twice");
}

#[test]
fn tokens_grow_in_the_order_of_the_grants() {
    let (home, _lock) = home();
    let last = AtomicU64::new(0);
    let turns = |thread: usize| {
        let lock = FileBackend::open(home.path()).expect("opens");
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            for round in 0..50 {
                let mut claim = claim("a");
                claim.label = lock_core::Label::new(format!("{thread}/{round}")).expect("short");
                let grant = loop {
                    match lock.try_acquire(&claim, None).await {
                        Ok(Attempt::Granted(grant)) => break grant,
                        Ok(Attempt::Busy(_)) => sleep(Duration::from_millis(1)).await,
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                };
                let before = last.swap(grant.token.get(), Ordering::SeqCst);
                assert!(before < grant.token.get());
                lock.release(&claim.name, claim.owner).await.expect("released");
            }
        });
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || turns(thread));
        }
    });
}

#[tokio::test]
async fn a_client_renews_waits_and_gives_back() {
    let (home, lock) = home();
    let client = LockClient::new(lock);
    let other = LockClient::new(FileBackend::open(home.path()).expect("opens"));
    let ttl = Duration::from_millis(200);
    let guard = client.acquire(LockRequest::new("a").ttl(ttl)).await.expect("acquired");
    sleep(ttl * 3).await;
    assert!(guard.is_held(), "renewed");
    assert!(other.try_acquire("a").await.expect("an answer").is_none());

    let request = LockRequest::new("a").wait(Wait::AtMost(Duration::from_secs(5)));
    let waiting = tokio::spawn(async move { other.acquire(request).await });
    sleep(Duration::from_millis(20)).await;
    let token = guard.token();
    drop(guard);
    let next = waiting.await.expect("no panic").expect("acquired");
    assert!(next.token() > token);
}

#[tokio::test]
async fn directory_and_files_are_private_and_no_text_shows_an_owner() {
    let home = tempdir().expect("a directory");
    let nested = home.path().join("x/y");
    let lock = FileBackend::open(&nested).expect("opens");
    let claim = claim_of(LockRequest::new("a"));
    granted(&lock, &claim).await;
    let mode = |path: &std::path::Path| {
        let metadata = fs::metadata(path).expect("there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(&nested), 0o700);
    let file = fs::read_dir(&nested).expect("readable").next().expect("a file");
    assert_eq!(mode(&file.expect("readable").path()), 0o600);
    lock.withdraw(&claim.name, claim.owner).await.expect("withdrawn");
    let refused = lock.try_acquire(&claim, None).await.expect_err("refused");
    let text = format!("{lock:?} {refused} {refused:?}");
    assert!(!text.contains(&claim.owner.expose()[8..]), "{text}");
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_said_when_it_is_opened_or_lost() {
    let home = tempdir().expect("a directory");
    let file = home.path().join("file");
    fs::write(&file, "").expect("written");
    let refused = FileBackend::open(&file).expect_err("a file");
    let LockError::Backend { source, .. } = refused else {
        panic!("{refused}");
    };
    assert!(!source.is_transient() && source.outcome() == Outcome::NotApplied, "{source}");
    assert!(source.to_string().contains(&file.display().to_string()), "{source}");

    let removed = home.path().join("removed");
    let lock = FileBackend::open(&removed).expect("opens");
    fs::remove_dir(&removed).expect("removed");
    let error = lock.try_acquire(&claim("a"), None).await.expect_err("gone");
    assert!(!error.is_transient() && error.outcome() == Outcome::NotApplied, "{error}");
}

/// As when the user may start no more processes and threads. No stack of that size can be had.
#[test]
fn a_thread_that_cannot_be_had_is_a_transient_error() {
    let (_home, lock) = home();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.thread_stack_size(1 << 60).build().expect("a runtime");
    let claim = claim("a");
    let error = runtime.block_on(lock.try_acquire(&claim, None)).expect_err("no thread");
    assert!(error.is_transient() && error.outcome() == Outcome::Unknown, "{error}");
    assert!(error.to_string().contains("thread"), "{error}");
}

#[test]
fn a_runtime_that_shuts_down_is_a_transient_error() {
    let (_home, lock) = home();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let claim = claim("a");
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let _inside = handle.enter();
    let mut attempt = std::pin::pin!(lock.try_acquire(&claim, None));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = attempt.as_mut().poll(&mut context);
    let std::task::Poll::Ready(Err(error)) = polled else {
        panic!("{polled:?}");
    };
    assert!(error.is_transient() && error.outcome() == Outcome::Unknown);
}
