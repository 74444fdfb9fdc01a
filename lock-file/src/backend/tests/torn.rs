//! Processes that are killed at any byte of any change of a queue.

use std::path::Path;

use super::*;

use crate::directory::Queueing;
use crate::locked_file::{LockTimeout, LockedFile};
use crate::machine::Now;
use crate::record::Record;
use crate::slots::FILE_BYTES;
use crate::state_file::{StateFile, StateOf};

/// What a file says: who holds the lock, under which token, and who waits.
#[derive(Clone, Debug, PartialEq)]
struct View {
    holder: Option<String>,
    token: FencingToken,
    waiters: Vec<OwnerId>,
}

/// Reads a file as every operation does.
fn view(path: &Path) -> View {
    let state_file = StateFile { path: path.to_owned(), of: StateOf::UnknownLock };
    let file = LockedFile::find(&state_file, LockTimeout::new()).expect("readable");
    let file = file.expect("there");
    let record = Record::decode(file.value().expect("a value")).expect("a record");
    let now = Now { boot: "boot".into(), uptime: Duration::ZERO, wall_micros: 0 };
    let waiters = record.queue(&now).alive(&file, &now);
    View {
        holder: record.holder(&now).and_then(|holder| holder.owner),
        token: record.token,
        waiters: waiters.map(|queued| queued.expect("readable").entry.owner).collect(),
    }
}

/// The files that a change may leave which is cut short: it writes the entries in order, and the record last.
fn torn(before: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
    let mut old = before.to_vec();
    old.resize(before.len().max(after.len()), 0);
    let mut new = after.to_vec();
    new.resize(old.len(), 0);
    let mut files = Vec::new();
    for range in [FILE_BYTES..old.len(), 0..FILE_BYTES] {
        for at in range {
            if old[at] != new[at] {
                old[at] = new[at];
                files.push(old.clone());
            }
        }
    }
    files
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
    // Arrivals with a gap between them, the last of which finds no room; a second look; departures from all
    // positions; and turns.
    for step in 0..31 {
        match step {
            0..10 => join(&claims[1 + step]).await,
            11..18 => join(&claims[step]).await,
            18 => join(&claims[3]).await,
            10 | 19 | 20 | 21 => {
                let leaver = &claims[[5, 1, 17, 8][step.saturating_sub(18)]];
                lock.withdraw(&leaver.name, leaver.owner).await.expect("withdrawn");
            }
            _ => drop(lock.evict(&claims[0].name, &Whom::All).await.expect("evicted")),
        }
        let after = fs::read(&path).expect("readable");
        fs::write(&copy, &before).expect("written");
        let old = view(&copy);
        let new = view(&path);
        for file in torn(&before, &after) {
            fs::write(&copy, file).expect("written");
            let seen = view(&copy);
            // One that is killed while it writes its own entry anew may lose its place, which it needs no more.
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
