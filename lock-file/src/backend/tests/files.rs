//! Tests of damaged and lost files, of their directory, and of the machine.

use super::*;

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

/// A damaged file, and a file of another user, hide no lock from operators.
#[tokio::test]
async fn c49_a_bad_file_is_listed_beside_the_locks() {
    let (home, lock) = home();
    for name in ["a", "b"] {
        granted(&lock, &claim(name)).await;
    }
    let bad = ["0", "1"].map(|digit| home.path().join(format!("{}.lock", digit.repeat(64))));
    fs::write(&bad[0], "garbage").expect("written");
    fs::write(&bad[1], "").expect("written");
    fs::set_permissions(&bad[1], fs::Permissions::from_mode(0o666)).expect("a mode");
    let listed = lock.list("", 9).await.expect("an answer");
    let mut names: Vec<_> = listed.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names[..2], ["a", "b"]);
    names[2..].sort_unstable();
    assert_eq!(names[2..], bad.each_ref().map(|path| path.to_str().expect("UTF-8")));
    assert_eq!(lock.list("", 2).await.expect("an answer").len(), 2);
}

/// A listing waits for no file that others keep locked, unless the file cannot be read without its lock.
#[tokio::test]
async fn c31_a_file_that_is_kept_locked_hides_no_other() {
    let (home, lock) = home();
    for name in ["a", "b", "c"] {
        granted(&lock, &claim(name)).await;
    }
    let path = |name| home.path().join(format!("{}.lock", crate::digest::hex_digest(name)));
    let stuck = ["b", "c"].map(|name| {
        let file = File::open(path(name)).expect("opens");
        file.lock().expect("locked");
        file
    });
    let names = |listed: &[LockState]| {
        listed.iter().map(|state| state.name.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&lock.list("", 9).await.expect("all are read")), ["a", "b", "c"]);
    fs::write(path("c"), "garbage").expect("written");
    let error = lock.list("", 9).await.expect_err("a file was not read");
    assert_eq!(names(error.held().expect("an incomplete listing")), ["a", "b"]);
    assert!(error.is_transient() && error.to_string().contains("kept it locked"), "{error}");
    drop(stuck);
}

/// The file of a name that was unused for a week is removed, and the next token is still greater.
#[tokio::test]
async fn r4_files_of_locks_that_nobody_uses_are_removed() {
    let (home, lock) = home();
    let [idle, held, fresh] = ["idle", "held", "fresh"].map(claim);
    let token = granted(&lock, &idle).await.token;
    for claim in [&held, &fresh] {
        granted(&lock, claim).await;
    }
    for claim in [&idle, &fresh] {
        lock.release(&claim.name, claim.owner).await.expect("released");
    }
    let path = |name: &str| home.path().join(format!("{}.lock", crate::digest::hex_digest(name)));
    for name in ["idle", "held"] {
        let file = File::options().write(true).open(path(name)).expect("opens");
        let eight_days = Duration::from_secs(8 * 24 * 3600);
        file.set_modified(std::time::SystemTime::now() - eight_days).expect("an old file");
    }
    (0..16).for_each(|digit| lock.directory.sweep(digit));
    assert!(!path("idle").exists() && path("held").exists() && path("fresh").exists());
    assert!(granted(&lock, &claim("idle")).await.token > token);
}

#[tokio::test]
async fn r4_a_shutdown_waits_for_a_sweep() {
    let (_home, lock) = home();
    let (done, swept) = std::sync::mpsc::channel();
    let slow = move || {
        std::thread::sleep(Duration::from_millis(50));
        done.send(()).expect("the test waits");
    };
    *lock.sweep.lock() = begun(slow);
    lock.close().await.expect("closed");
    assert_eq!(swept.try_recv(), Ok(()));
}

fn begun(work: impl FnOnce() + Send + 'static) -> Option<Sweep> {
    in_background(work).map(|ended| Sweep { began: Instant::now(), ended })
}

/// A client of a large directory reads it once a minute at most, however many releases it sends.
#[tokio::test]
async fn r4_releases_begin_no_second_sweep_within_a_minute() {
    let (_home, lock) = home();
    *lock.sweep.lock() = begun(|| {});
    let began = || lock.sweep.lock().as_ref().map(|sweep| sweep.began);
    let first = began();
    (0..100_000).for_each(|_| lock.sweep_sometimes());
    assert_eq!(began(), first);
    lock.close().await.expect("closed");
}

#[tokio::test]
async fn c49_a_damaged_file_is_a_lasting_error_that_names_the_lock_and_the_remedy() {
    let (home, lock) = home();
    let claim = claim("precious");
    granted(&lock, &claim).await;
    let path = only_file(&home);
    for garbage in [&b"garbage"[..], &[1; 5000]] {
        fs::write(&path, garbage).expect("written");
        let error = lock.acquire(&claim, None).await.expect_err("damaged");
        assert!(!error.is_transient() && error.outcome() == Outcome::NotApplied);
        let text = error.to_string();
        assert!(text.contains("precious") && text.contains("remove the file"), "{text}");
        assert!(text.contains(&*path.to_string_lossy()), "{text}");
        assert!(error.found().is_some(), "what is there is no lock: {error}");
        let client = LockClient::new(lock.clone());
        for refused in [
            client.admin().inspect("precious").await.map(drop),
            client.admin().evict("precious").await.map(drop),
        ] {
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
    let text = lock.acquire(&claim, None).await.expect_err("damaged").to_string();
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
    for answer in lock.extend(&vec![renewal; 20]).await {
        let error = answer.expect_err("stuck");
        assert!(error.is_transient() && error.outcome() == Outcome::NotApplied);
    }
    let error = lock.acquire(&claim, None).await.expect_err("stuck");
    assert!(error.is_transient() && error.outcome() == Outcome::NotApplied);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
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
        async move {
            // An attempt waits for a second, and a busy machine may take longer.
            while lock.acquire(&second, None).await.is_err_and(|error| error.is_transient()) {}
            granted(&lock, &second).await
        }
    });
    sleep(Duration::from_millis(50)).await;
    fs::remove_file(only_file(&home)).expect("deleted");
    drop(deleted);
    waiting.await.expect("granted in the new file");
    assert!(is_busy(&lock, &third).await);
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
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("withdrawn");
    let refused = lock.acquire(&claim, None).await.expect_err("refused");
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
    let error = lock.acquire(&claim("a"), None).await.expect_err("gone");
    assert!(!error.is_transient() && error.outcome() == Outcome::NotApplied, "{error}");
    // C15: a directory that is away for a moment says nothing about a hold.
    let released = lock.release(&LockName::new("a").expect("a name"), OwnerId::random()).await;
    assert_eq!(released.expect_err("gone").outcome(), Outcome::NotApplied);
}

/// Simulates a user that may start no more threads: no stack can have that size.
#[test]
fn a_thread_that_cannot_be_had_is_a_transient_error() {
    let (_home, lock) = home();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.thread_stack_size(1 << 60).build().expect("a runtime");
    let claim = claim("a");
    let error = runtime.block_on(lock.acquire(&claim, None)).expect_err("no thread");
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
    let mut attempt = std::pin::pin!(lock.acquire(&claim, None));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = attempt.as_mut().poll(&mut context);
    let std::task::Poll::Ready(Err(error)) = polled else {
        panic!("{polled:?}");
    };
    assert!(error.is_transient() && error.outcome() == Outcome::Unknown);
}

/// R1: a try that was given up before it wrote leaves a file that is empty, and is swept as well.
#[tokio::test]
async fn r1_the_file_of_a_try_that_was_given_up_is_removed() {
    let (home, lock) = home();
    let claim = claim("given-up");
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("withdrawn");
    lock.acquire(&claim, None).await.expect_err("withdrawn");
    let path = only_file(&home);
    let file = File::options().write(true).open(&path).expect("opens");
    let eight_days = Duration::from_secs(8 * 24 * 3600);
    file.set_modified(std::time::SystemTime::now() - eight_days).expect("an old file");
    (0..16).for_each(|digit| lock.directory.sweep(digit));
    assert!(!path.exists(), "an empty file stays for ever");
}
