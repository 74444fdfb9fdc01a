//! Processes that are killed at any byte of any change of a queue.

use lock_core::backend::DistributedLockExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;

use lock_core::backend::{Claim, Held};

use crate::directory::Queueing;
use crate::lock::Lock;
use crate::locked_file::{LockTimeout, LockedFile};
use crate::machine::Now;
use crate::record::Record;
use crate::slots::FILE_BYTES;
use crate::state_file::{StateFile, StateOf};

/// Content of a file: the holds, and the waiters.
#[derive(Clone, Debug, PartialEq)]
struct View {
    holds: Vec<Held>,
    waiters: Vec<OwnerId>,
}

/// Reads a file as every operation does.
fn view(path: &Path) -> View {
    let state_file = StateFile { path: path.to_owned(), of: StateOf::UnknownLock };
    let file = LockedFile::find(&state_file, LockTimeout::new()).expect("readable");
    let file = file.expect("there");
    let record = Record::decode(file.value().expect("a value")).expect("a record");
    let now = Now { boot: Some("boot".into()), uptime: Duration::ZERO, wall_micros: 0 };
    let waiters = record.queue.alive(&file, &now);
    let waiters = waiters.map(|queued| queued.expect("readable").entry.owner).collect();
    let lock = Lock::recorded(record, file, now).expect("readable");
    View { holds: lock.value.holds().to_vec(), waiters }
}

/// Returns the bytes of a change in the order in which they are written: parts first, and the record last. Bytes that are
/// cut off have no use in the record.
fn written(before: &[u8], after: &[u8]) -> Vec<(u64, u8)> {
    let places = (FILE_BYTES..after.len()).chain(0..FILE_BYTES);
    let changed = places.filter(|at| before.get(*at).copied().unwrap_or(0) != after[*at]);
    changed.map(|at| (at as u64, after[at])).collect()
}

/// Puts the file of before at `path`, for the bytes of a change.
fn put(path: &Path, before: &[u8]) -> File {
    fs::write(path, before).expect("written");
    File::options().write(true).open(path).expect("opens")
}

#[tokio::test]
async fn a_change_of_a_queue_that_is_cut_at_any_byte_leaves_the_queue_before_or_after() {
    let home = tempdir().expect("a directory");
    let lock = on(home.path(), "boot", ZERO, ZERO);
    let claims: Vec<_> = (0..24).map(|_| claim("a")).collect();
    granted(&lock, &claims[0]).await;
    let (path, elsewhere) = (only_file(&home), tempdir().expect("a directory"));
    let copy = elsewhere.path().join("copy");
    let mut before = fs::read(&path).expect("readable");
    let join = async |claim| drop(lock.try_once(claim, Queueing::Polling).await.expect("queued"));
    let mut cuts = 0;
    // Arrivals with a gap between them, the last of which finds no room; a repeated look; departures from all
    // positions; and turns.
    for step in 0..31 {
        match step {
            0..10 => join(&claims[1 + step]).await,
            11..18 => join(&claims[step]).await,
            18 => join(&claims[3]).await,
            10 | 19 | 20 | 21 => {
                let leaver = &claims[[5, 1, 17, 8][step.saturating_sub(18)]];
                lock.withdraw(&leaver.name, &[leaver.owner]).await.expect("withdrawn");
            }
            _ => drop(lock.evict(&claims[0].name, &Whom::All).await.expect("evicted")),
        }
        let after = fs::read(&path).expect("readable");
        let cut = put(&copy, &before);
        let old = view(&copy);
        let new = view(&path);
        for (at, byte) in written(&before, &after) {
            cut.write_all_at(&[byte], at).expect("written");
            let seen = view(&copy);
            // A waiter that is killed while it rewrites its own entry may lose its place, which it no longer needs.
            let mut without_own = old.clone();
            without_own.waiters.retain(|owner| *owner != claims[3].owner);
            let is_own = step == 18 && seen == without_own;
            assert!(seen == old || seen == new || is_own, "step {step}: {seen:?}");
            cuts += 1;
        }
        before = after;
    }
    assert!(cuts > 1000, "{cuts}");
}

/// Change of a lock that may have several holders.
#[derive(Clone, Copy, Debug)]
enum Change {
    Ask(usize),
    Extend(usize),
    Release(usize),
    Withdraw(usize),
    Evict(usize),
}

#[tokio::test]
async fn a_change_of_several_holds_that_is_cut_at_any_byte_leaves_them_as_before_or_after() {
    use Change::{Ask, Evict, Extend, Release, Withdraw};
    let home = tempdir().expect("a directory");
    let lock = on(home.path(), "boot", ZERO, ZERO);
    let kinds: [fn(LockRequest) -> LockRequest; 8] = [
        |request| request,
        LockRequest::shared,
        LockRequest::shared,
        LockRequest::shared,
        |request| request,
        // The slots of two of them find no room in the record.
        |request| request.permits(341, 1023),
        |request| request.permits(682, 1023),
        |request| request.permits(341, 1023),
    ];
    let claims = kinds.map(|kind| claim_of(kind(LockRequest::new("a").ttl(TTL))));
    let changes = [
        // A writer, with all the others behind it.
        vec![Ask(0), Ask(1), Ask(2), Ask(3), Ask(4), Ask(5), Ask(6), Ask(7)],
        // Three readers get in together, are extended, and leave in various ways.
        vec![Release(0), Extend(1), Ask(2), Evict(2), Withdraw(1), Release(3)],
        // After the other writer, two permits are held, and a third one waits for a slot.
        vec![Withdraw(4), Release(5), Extend(6), Ask(5), Release(7), Evict(6), Release(5)],
    ];
    let (elsewhere, mut cuts, mut most) = (tempdir().expect("a directory"), 0, 0);
    let copy = elsewhere.path().join("copy");
    granted(&lock, &claim("a")).await;
    lock.evict(&claims[0].name, &Whom::All).await.expect("evicted");
    let path = only_file(&home);
    let mut before = fs::read(&path).expect("readable");
    for change in changes.concat() {
        make(&lock, &claims, change).await;
        let after = fs::read(&path).expect("readable");
        let cut = put(&copy, &before);
        let (old, new) = (view(&copy), view(&path));
        for (at, byte) in written(&before, &after) {
            cut.write_all_at(&[byte], at).expect("written");
            let seen = view(&copy);
            assert!(seen == old || seen == new, "{change:?}: {seen:?} from {old:?} to {new:?}");
            cuts += 1;
        }
        most = most.max(new.holds.len());
        before = after;
    }
    assert!(cuts > 1000 && most == 3, "{cuts} cuts, {most} holders");
    assert!(view(&path).holds.is_empty());
}

async fn make(lock: &FileBackend, claims: &[Claim], change: Change) {
    match change {
        Change::Ask(i) => {
            lock.try_once(&claims[i], Queueing::Polling).await.expect("an answer");
        }
        Change::Extend(i) => {
            let state = lock.inspect(&claims[i].name).await.expect("an answer");
            let owner = claims[i].owner.to_string();
            let held = state.holders.iter().find(|held| held.owner.as_ref() == Some(&owner));
            let token = held.and_then(|held| held.token).expect("a holder");
            let longer = renewal(&claims[i], token, TTL * 2);
            let extended = lock.extend_one(&longer).await.expect("an answer");
            assert_eq!(extended, Extension::Extended(TTL * 2));
        }
        Change::Release(i) => {
            let released = lock.release(&claims[i].name, claims[i].owner).await;
            assert_eq!(released.expect("an answer"), Release::Released, "{i}");
        }
        Change::Withdraw(i) => {
            lock.withdraw(&claims[i].name, &[claims[i].owner]).await.expect("withdrawn");
        }
        Change::Evict(i) => {
            let whom = Whom::Owner(claims[i].owner.to_string());
            let evicted = lock.evict(&claims[i].name, &whom).await.expect("an answer");
            assert_eq!(evicted.len(), 1, "{i}");
        }
    }
}
