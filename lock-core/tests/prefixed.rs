//! Locks behind a prefix: the cases in which a name goes in or comes out.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use lock_core::backend::{Prefixed, async_trait};
use lock_core::{
    DistributedLock, InputKind, LockAdmin, LockClient, LockError, LockName, MemoryBackend, Whom,
};
use lock_testkit::conformance::Harness;

const PREFIX: &str = "shop:";

struct Shop(Prefixed<MemoryBackend>);

#[async_trait]
impl Harness for Shop {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.0.clone())
    }

    async fn evict(&self, name: &LockName) {
        self.0.evict(name, &Whom::All).await.expect("an answer");
    }

    fn longest_name(&self) -> usize {
        lock_core::LockName::MAX_BYTES - PREFIX.len()
    }
}

fn shop() -> Prefixed<MemoryBackend> {
    Prefixed::new(MemoryBackend::new(), PREFIX).expect("a good prefix")
}

lock_testkit::conformance_tests! {
    Shop(shop());
    c02_a_listing_takes_prefixes_as_data
    c02_names_are_data
    c04_a_hold_that_is_over_is_not_listed
    c08_a_loss_that_is_seen_is_told
    c12_a_batch_is_answered_in_its_order
    c19_a_late_request_of_a_withdrawn_claim_is_refused
    c22_reserved_tokens_are_nobody_elses
    c26_a_reservation_yields_to_those_that_wait
    c27_first_come_first_served
    c28_a_waiter_is_queued_by_its_first_attempt
    c31_the_doctor_examines_the_server
    c33_another_number_of_permits_is_a_conflict
    c38_an_eviction_ends_one_hold_or_all
    c38_an_inspection_lists_all_holders
    c39_several_locks_are_held_together
    c40_a_leader_that_resigns_hands_over_at_once
    c42_a_run_that_is_forgotten_runs_again
    c42_occurrences_are_data
    c44_a_watch_shows_grants_releases_and_evictions
    c44_what_is_told_is_shown_between_two_polls
    c46_an_eviction_fences_reserved_tokens
    c49_a_prefix_is_a_part_of_each_name
    every_history_agrees_with_the_model
    s5_nobody_but_the_owner_extends_or_ends_a_hold
}

#[tokio::test]
async fn c01_a_name_that_is_too_long_with_its_prefix_is_invalid() {
    let shop = LockClient::new(shop());
    let longest = "n".repeat(lock_core::LockName::MAX_BYTES - PREFIX.len());
    let refused = shop.acquire(format!("{longest}n")).await;
    assert!(
        matches!(&refused, Err(LockError::Invalid(input)) if input.kind() == InputKind::Name),
        "{refused:?}"
    );
    shop.acquire(longest).await.expect("a free lock").release().await.expect("it was held");
}

/// With two prefixes, the one nearer to the store comes first.
#[tokio::test]
async fn c49_prefixes_are_put_before_each_other() {
    let store = MemoryBackend::new();
    let stage = Prefixed::new(store.clone(), "test/").expect("a good prefix");
    let shop = LockClient::new(Prefixed::new(stage, PREFIX).expect("a good prefix"));
    let _guard = shop.acquire("a").await.expect("a free lock");
    let held = LockClient::new(store).admin().list("", 9).await.expect("a listing");
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].name.as_str(), "test/shop:a");
    assert_eq!(shop.admin().list("", usize::MAX).await.expect("a listing").len(), 1);
    assert!(shop.admin().list("", 0).await.expect("a listing").is_empty());
}
