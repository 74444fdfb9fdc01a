//! Life of a hold: grants, extensions, expiry, reboots, withdrawals.

use super::*;
use lock_core::backend::DistributedLockExt;

#[tokio::test]
async fn c14_busy_says_what_is_known_of_the_holder() {
    let home = tempdir().expect("a directory");
    let early = on(home.path(), "boot", || Duration::from_secs(100), ZERO);
    let later = on(home.path(), "boot", || Duration::from_secs(110), ZERO);
    granted(&early, &claim("a")).await;
    let attempt = later.acquire(&claim("a"), None).await;
    let Attempt::Busy(seen) = attempt.expect("an answer") else {
        panic!("granted twice");
    };
    assert_eq!(seen.ttl_left, Some(Duration::from_secs(20)));
    assert_eq!(seen.holder.expect("a label").as_str(), "the test");
    let at = ServerTime(Duration::from_secs(110));
    assert_eq!((seen.position, seen.at), (None, Some(at)));
}

#[tokio::test]
async fn c45_a_holder_has_the_time_of_its_grant() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", ZERO, || Duration::from_secs(1_800_000_000));
    let later = on(home.path(), "boot", || TTL / 2, || Duration::from_secs(1_800_000_015));
    let claim = claim("a");
    let token = granted(&start, &claim).await.token;
    later.extend_one(&renewal(&claim, token, TTL)).await.expect("an answer");
    let state = later.inspect(&claim.name).await.expect("an answer");
    let since = state.holder().expect("held").since;
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
async fn a_reboot_ends_a_hold_though_the_clock_is_behind_its_deadline() {
    let home = tempdir().expect("a directory");
    let before = on(home.path(), "one", || Duration::from_secs(1000), ZERO);
    let after = on(home.path(), "two", || Duration::from_secs(3), ZERO);
    let claim = claim("a");
    let token = granted(&before, &claim).await.token;
    assert_eq!(after.inspect(&claim.name).await.expect("an answer").holder(), None);
    let extended = after.extend_one(&renewal(&claim, token, TTL)).await;
    assert_eq!(extended.expect("an answer"), Extension::Lost);
    let released = after.release(&claim.name, claim.owner).await;
    assert_eq!(released.expect("an answer"), Release::NotHeld);
}

/// A container with its own boot id sees the holds of other containers, and recognises a reboot by the uptime alone.
#[tokio::test]
async fn s3_without_a_boot_id_a_hold_lives_from_when_it_was_written_to_its_deadline() {
    const START: Duration = Duration::from_secs(1000);
    for (writer, reader) in [("-", "-"), ("-", "boot"), ("boot", "-")] {
        let home = tempdir().expect("a directory");
        let at = |boot, uptime| on(home.path(), boot, uptime, ZERO);
        granted(&at(writer, || START), &claim("a")).await;
        assert!(is_busy(&at(reader, || START), &claim("a")).await, "written now");
        let last = at(reader, || START + TTL - Duration::from_nanos(1));
        assert!(is_busy(&last, &claim("a")).await, "before its deadline");
        let holds = async |lock: &FileBackend| {
            lock.inspect(&claim("a").name).await.expect("an answer").holder().is_some()
        };
        assert!(!holds(&at(reader, || START + TTL)).await, "at its deadline");
        assert!(
            !holds(&at(reader, || START - Duration::from_nanos(1))).await,
            "of an earlier boot"
        );
        granted(&at(reader, || Duration::ZERO), &claim("a")).await;
    }
}

/// The two boots certainly differ: a crash soon after a start costs nothing.
#[tokio::test]
async fn a_reboot_ends_a_hold_though_the_uptime_is_within_it() {
    let home = tempdir().expect("a directory");
    granted(&on(home.path(), "one", || Duration::from_secs(10), ZERO), &claim("a")).await;
    granted(&on(home.path(), "two", || Duration::from_secs(11), ZERO), &claim("a")).await;
}

#[tokio::test]
async fn c19_an_attempt_that_was_given_up_before_it_began_never_happens() {
    let (home, lock) = home();
    let (given_up, other) = (claim("a"), claim("a"));
    granted(&lock, &other).await;
    lock.release(&other.name, other.owner).await.expect("released");
    let file = File::open(only_file(&home)).expect("opens");
    file.lock().expect("locked");
    let attempt = timeout(Duration::from_millis(20), lock.acquire(&given_up, None));
    assert!(attempt.await.is_err(), "the attempt waits for the file");
    file.unlock().expect("unlocked");
    sleep(Duration::from_millis(50)).await;
    assert_eq!(lock.inspect(&other.name).await.expect("an answer").holder(), None);
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
    let is_free = async || lock.inspect(&b).await.expect("an answer").holder().is_none();
    let freed = async {
        while !is_free().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(4), freed).await.expect("given back long before its TTL is over");
    jam.unlock().expect("unlocked");
}
