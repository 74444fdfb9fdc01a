//! C2, C4: the locks that a listing shows, and their order.

use crate::Expect;
use std::time::Duration;

use futures_util::TryStreamExt;
use lock_core::{DistributedLock, LockName, Whom};

use super::harness::Harness;
use super::steps::{claim, fresh_name, granted, until_expired};

/// Texts that stores take for patterns, each with a name that its pattern would match.
const PARTS: [&str; 14] =
    ["%", "_", "*", "?", "[a]", "\\", ".", "A", "a", "b", "{a,b}", "^", "'", "ü"];

/// C2: the prefix of a listing is data: no pattern, and case-sensitive. A listing is sorted by the bytes of the
/// names, and bounded.
pub async fn c02_a_listing_takes_prefixes_as_data(harness: &dyn Harness) {
    let (backend, tag) = (harness.connect().await, fresh_name());
    let mut names = PARTS.map(|part| format!("{tag}{part}x"));
    for name in &names {
        hold(&*backend, name, harness.long_ttl()).await;
    }
    for part in PARTS {
        let listed = listed(&*backend, &format!("{tag}{part}"), 99).await;
        let own = [format!("{tag}{part}x")];
        assert_eq!(listed, own, "a listing is to take {part:?} as itself, not as a pattern");
    }
    names.sort_unstable();
    let all = listed(&*backend, tag.as_str(), 99).await;
    assert_eq!(all, names, "a listing is to be sorted by name, byte by byte");
    for limit in [0, 1, 5] {
        let some = listed(&*backend, tag.as_str(), limit).await;
        assert_eq!(some, names[..limit], "a listing is to show the first {limit} at most");
    }
    let pages: Vec<_> =
        backend.expect_admin().pages(tag.to_string(), 5).try_collect().await.expect("an answer");
    let paged = pages.concat().into_iter().map(|state| state.name.as_str().to_owned());
    assert_eq!(paged.collect::<Vec<_>>(), names[..5], "pages are to show what a listing shows");
    for name in names {
        backend
            .expect_admin()
            .evict(&name.parse().expect("a good name"), &Whom::All)
            .await
            .expect("an answer");
    }
}

/// C4: a listing shows held locks, and neither expired nor released ones.
pub async fn c04_a_hold_that_is_over_is_not_listed(harness: &dyn Harness) {
    let (backend, tag) = (harness.connect().await, fresh_name());
    let [expired, released, held] = ["a", "b", "c"].map(|part| format!("{tag}-{part}"));
    let expires = hold(&*backend, &expired, harness.ttl()).await;
    let (name, owner) = hold(&*backend, &released, harness.long_ttl()).await;
    backend.release(&name, owner).await.expect("an answer");
    let (name, owner) = hold(&*backend, &held, harness.long_ttl()).await;
    until_expired(harness, &*backend, &expires.0).await;
    let listed = listed(&*backend, tag.as_str(), 99).await;
    assert_eq!(listed, [held], "a listing is to show what is held, and nothing that is over");
    backend.release(&name, owner).await.expect("an answer");
}

async fn hold(
    backend: &dyn DistributedLock,
    name: &str,
    ttl: Duration,
) -> (LockName, lock_core::OwnerId) {
    let claim = claim(&name.parse().expect("a good name"), ttl);
    granted(backend, &claim).await;
    (claim.name, claim.owner)
}

async fn listed(backend: &dyn DistributedLock, prefix: &str, limit: usize) -> Vec<String> {
    let states = backend.expect_admin().list(prefix, limit).await.expect("an answer");
    states.into_iter().map(|state| state.name.as_str().to_owned()).collect()
}
