//! Content of a later version counts neither as free nor as missing.

use super::*;
use crate::digest::hex_digest;
use crate::queue_entry::ENTRY_BYTES;
use crate::slots::{self, FILE_BYTES, SLOT_BYTES, Version};
use crate::testing::queue_at;
use lock_core::backend::DistributedLockExt;

/// Checks that every operation on the lock fails with an error that names lock, file and remedy, and changes no file.
async fn is_refused(lock: &FileBackend, path: &std::path::Path) {
    let before = fs::read(path).expect("readable");
    let held = claim("precious");
    let (name, owner) = (&held.name, held.owner);
    let renewal = renewal(&held, FencingToken::MAX, TTL);
    let refused = [
        lock.acquire(&held, None).await.map(drop),
        lock.extend_one(&renewal).await.map(drop),
        lock.release(name, owner).await.map(drop),
        lock.withdraw(name, &[owner]).await,
        lock.evict(name, &Whom::All).await.map(drop),
        lock.inspect(name).await.map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("not understood");
        assert!(!error.is_transient() && error.outcome() == Outcome::NotApplied, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&*path.to_string_lossy()) && text.contains("remove the file"),
            "{text}"
        );
        assert!(text.contains("precious"), "{text}");
    }
    let listed = lock.list("any prefix", 9).await.expect("an answer");
    let [seen] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(seen.name.as_str(), path.to_str().expect("UTF-8"), "it may be held");
    assert!(seen.holder().is_some_and(|holder| holder.owner.is_none()), "{seen:?}");
    assert_eq!(fs::read(path).expect("readable"), before);
}

/// Returns a file whose valid record is `text`.
fn record(text: &str) -> Vec<u8> {
    let mut file = vec![0; FILE_BYTES];
    let (_, slot) = slots::encode(&Version { sequence: 0, payload: text.into() });
    file[..SLOT_BYTES].copy_from_slice(&slot);
    file
}

#[tokio::test]
async fn s3_a_hold_of_a_later_format_is_never_overwritten() {
    let (home, lock) = home();
    let path = home.path().join(format!("{}.lock", hex_digest("precious")));
    // A lock that was free in our format, and was acquired in a later one: in the slot that is not valid here.
    let mut mixed = record("precious\n- 5\n0 0 0\n\n7");
    mixed[SLOT_BYTES..SLOT_BYTES + 8].copy_from_slice(b"lease-2\n");
    let mut later = mixed.clone();
    later[..8].copy_from_slice(b"lease-2\n");
    let owner = OwnerId::random().expose();
    for file in [
        mixed,
        later,
        record(&format!("precious\n- 5\n0 0 0\n\n7\n{owner}\t7\twriters\t\t99\ta label\t0")),
        record(&format!(
            "precious\n- 5\n0 0 0\n\n7\n{owner}\t7\texclusive\t\t99\ta label\t0\nand more"
        )),
        record("precious\n@5\n0 0 0\n\n7"),
        record("precious\n- 0\n0 0 0\n0 1 9 0\n7"),
    ] {
        fs::write(&path, file).expect("written");
        is_refused(&lock, &path).await;
    }
}

#[tokio::test]
async fn c34_a_waiter_of_a_later_kind_is_not_passed_over() {
    let home = tempdir().expect("a directory");
    let lock = on(home.path(), "boot", ZERO, ZERO);
    granted(&lock, &claim("precious")).await;
    queue_at(&lock, &claim("precious"), uuid::Uuid::new_v4()).await;
    let path = only_file(&home);
    let mut file = fs::read(&path).expect("readable");
    let entry = file[FILE_BYTES..].first_chunk_mut::<ENTRY_BYTES>().expect("an entry");
    // Takes 10 of 9 permits: a kind that this version does not know.
    entry[ENTRY_BYTES - 4..].copy_from_slice(&[10, 0, 9, 0]);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&entry[4..]);
    entry[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
    fs::write(&path, file).expect("written");
    let expired = on(home.path(), "boot", || TTL, ZERO);
    for refused in [
        expired.acquire(&claim("precious"), None).await.map(drop),
        expired.inspect(&claim("precious").name).await.map(drop),
    ] {
        let error = refused.expect_err("not understood").to_string();
        assert!(error.contains("precious") && error.contains("unreadable waiter"), "{error}");
    }
}
