//! The list of broken backends.

use std::sync::Arc;
use std::time::Duration;

use lock_core::DistributedLock;
use lock_core::backend::WITHDRAWAL_REMEMBERED;

use super::backend::Broken;
use super::flaw::{self, Flaw, Tokens, short_ttl};

/// A way to break a backend, and the case of the suite that refuses it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Break {
    /// The broken behaviour.
    pub name: &'static str,
    /// The case of the suite that refuses it.
    pub case: &'static str,
    /// Part of the case's message: the expected behaviour.
    pub expected: &'static str,
    /// Makes a broken backend with its own store.
    pub make: fn() -> Arc<dyn DistributedLock>,
}

/// Returns the sound backend, in the same wrapper as the broken ones. The cases that refuse those accept it.
pub fn unbroken() -> Arc<dyn DistributedLock> {
    Arc::new(Broken::with(Flaw::None))
}

/// Makes the list of [`Break`]s: the name, the flaw, the case that refuses it, and a part of its message.
macro_rules! breaks {
    ($($name:literal = $flaw:expr => $case:ident, $expected:literal;)*) => {
        /// All broken backends.
        pub const BREAKS: &[Break] = &[$(
            Break {
                name: $name,
                case: stringify!($case),
                expected: $expected,
                make: || Arc::new(Broken::with($flaw)),
            },
        )*];
    };
}

breaks! {
    "check and grant in two steps" = Flaw::ChecksThenGrants
        => s3_of_many_that_try_at_once_one_is_granted, "the server is to grant one the lock";
    "70 % of the TTL after a grant" = short_ttl(0.7, 1.0, 1.0)
        => c04_a_grant_lasts_for_all_of_its_ttl, "the server is to keep a grant for the";
    "70 % of the TTL after a repeated acquire" = short_ttl(1.0, 0.7, 1.0)
        => c16_a_repeated_acquire_lasts_for_all_of_its_ttl, "the server is to keep a repeated acquire for the";
    "a repeated acquire renews nothing" = short_ttl(1.0, 0.0, 1.0)
        => c16_a_repeated_acquire_lasts_for_all_of_its_ttl, "the server is to keep a repeated acquire for the";
    "70 % of the TTL after an extension" = short_ttl(1.0, 1.0, 0.7)
        => c12_an_extension_lasts_for_all_of_its_ttl, "the server is to keep an extension for the";
    "an extension renews nothing" = short_ttl(1.0, 1.0, 0.0)
        => c12_an_extension_lasts_for_all_of_its_ttl, "the server is to keep an extension for the";
    "an extension shortens the hold" = Flaw::ExtensionShortens
        => c10_extending_twice_at_once_is_safe, "the server is to keep the longest extension";
    "an extension revives an expired hold" = Flaw::ExtensionRevives
        => c10_an_expired_hold_is_over, "the server is not to extend a hold that expired";
    "an extension by any owner" = Flaw::AnyOwnerExtends
        => s5_nobody_but_the_owner_extends_or_ends_a_hold, "a stranger is not to extend a hold";
    "an extension by any token" = Flaw::AnyTokenExtends
        => c10_a_later_grant_to_the_same_owner_is_another_hold, "the server is never to extend a hold that is over";
    "a batch answered in another order" = Flaw::AnswersBatch(flaw::in_another_order)
        => c12_a_batch_is_answered_in_its_order, "the answers to a batch are to be in the order of its questions";
    "a batch that one lost hold loses" = Flaw::AnswersBatch(flaw::all_or_none)
        => c12_a_batch_is_answered_in_its_order, "the answers to a batch are to be in the order of its questions";
    "a batch without answers for lost holds" = Flaw::AnswersBatch(flaw::only_the_extended)
        => c12_a_batch_is_answered_in_its_order, "a batch is to have an answer for each question";
    "a batch with one TTL for all" = Flaw::OneTtlForAll
        => c12_a_batch_is_answered_in_its_order, "each hold is to get the TTL that was asked for it";
    "a listing by LIKE and %" = Flaw::Lists(flaw::with_percent)
        => c02_a_listing_takes_prefixes_as_data, "a listing is to take \"%\" as itself";
    "a listing by LIKE and _" = Flaw::Lists(flaw::with_underscore)
        => c02_a_listing_takes_prefixes_as_data, "a listing is to take \"_\" as itself";
    "a listing in any case" = Flaw::Lists(flaw::in_any_case)
        => c02_a_listing_takes_prefixes_as_data, "a listing is to take \"A\" as itself";
    "an unsorted listing" = Flaw::Lists(flaw::unsorted)
        => c02_a_listing_takes_prefixes_as_data, "a listing is to be sorted by name";
    "an unbounded listing" = Flaw::Lists(flaw::unbounded)
        => c02_a_listing_takes_prefixes_as_data, "a listing is to show the first 0 at most";
    "a listing of expired holds" = Flaw::ListsTheExpired
        => c04_a_hold_that_is_over_is_not_listed, "a listing is to show what is held";
    "an owner id in an error's text" = Flaw::RefusalShowsOwner(flaw::in_its_text)
        => c32_no_error_shows_an_owner, "no error is to show an owner id";
    "an owner id in an error's source" = Flaw::RefusalShowsOwner(flaw::in_its_source)
        => c32_no_error_shows_an_owner, "no error is to show an owner id";
    "an owner id in an inspection" = Flaw::InspectionShowsOwner
        => c32_no_text_shows_an_owner, "no text is to show an owner id";
    "a driver that blocks" = Flaw::Blocks
        => r2_no_call_keeps_the_thread, "is to leave the thread to other tasks while it waits";
    "a listing that blocks" = Flaw::BlocksToList
        => r2_no_call_keeps_the_thread, "list is to leave the thread to other tasks while it waits";
    "a withdrawal that is not remembered" = Flaw::RemembersWithdrawal(Duration::ZERO)
        => c19_a_late_request_of_a_withdrawn_claim_is_refused, "a late request of a withdrawn claim is to be refused";
    "a withdrawal that is forgotten early" = Flaw::RemembersWithdrawal(Duration::from_secs(3))
        => c19_a_withdrawal_is_remembered, "a late request of a withdrawn claim is to be refused";
    "a withdrawal that leaves the place in the queue" = Flaw::RemembersWithdrawal(WITHDRAWAL_REMEMBERED)
        => c14_a_bounded_wait_times_out, "a wait that ended leaves no place in the queue";
    "a withdrawal of any owner's hold" = Flaw::WithdrawalOfAnyOwner
        => s5_nobody_but_the_owner_extends_or_ends_a_hold, "a stranger is not to end a hold";
    "a late request that is refused for now" = Flaw::RefusesForNow
        => c19_a_late_request_of_a_withdrawn_claim_is_refused, "the refusal is to say that no further try will help";
    "a release of any owner's hold" = Flaw::ReleaseOfAnyOwner
        => s5_nobody_but_the_owner_extends_or_ends_a_hold, "a stranger is not to release a hold";
    "released, though nothing was held" = Flaw::AlwaysReleased
        => c16_a_repeated_acquire_finds_its_own_grant, "a release of nothing is to be told as not held";
    "an eviction that tells nobody's name" = Flaw::EvictionTellsNobody
        => c24_an_evicted_holder_has_the_lesser_token, "an eviction is to tell whose hold it ended";
    "an eviction that keeps the waiters waiting" = Flaw::EvictionForgetsWaiters
        => c28_an_eviction_lets_the_next_one_in, "a waiter is to get in after an eviction";
    "a release that wakes nobody" = Flaw::WakesNobody
        => c27_a_release_lets_the_next_one_in, "a release is to let the next one in within";
    "a busy lock that tells nothing" = Flaw::BusyTellsNothing
        => c14_busy_tells_what_is_known, "a busy lock is to tell the label of its holder";
    "a repeated acquire in its own way" = Flaw::RepeatIsBusy
        => c16_a_repeated_acquire_finds_its_own_grant, "a repeat is to find its own grant";
    "a repeated acquire with another token" = Flaw::RepeatIsAnotherGrant
        => c16_a_repeated_acquire_finds_its_own_grant, "a repeat is to find its grant with the same token";
    "tokens that begin anew after an eviction" = Flaw::Numbers(Tokens::AnewAfterEviction)
        => c22_tokens_grow_through_release_expiry_and_eviction, "each grant is to have a greater token";
    "tokens that begin anew after an expiry" = Flaw::Numbers(Tokens::AnewAfterExpiry)
        => c22_tokens_grow_through_release_expiry_and_eviction, "each grant is to have a greater token";
    "tokens of a clock of seconds" = Flaw::Numbers(Tokens::OfTheClock)
        => c22_tokens_grow_through_release_expiry_and_eviction, "each grant is to have a greater token";
    "reserved tokens that are granted again" = Flaw::ReservesGranted
        => c22_reserved_tokens_are_nobody_elses, "reserved tokens are to be greater than all before";
    "a reservation that never yields" = Flaw::NeverYields
        => c26_a_reservation_yields_to_those_that_wait, "a hold that yields is to go to those that wait on the server";
    "an owner's old token after an expiry" = Flaw::Numbers(Tokens::OfTheOwner)
        => c10_an_expired_hold_is_over, "a grant after the expiry is to have a greater token";
    "names in lower case" = Flaw::StoresNames(|name| name.to_lowercase())
        => c02_names_are_data, "is to be a lock of its own";
    "names without blanks at the end" = Flaw::StoresNames(|name| name.trim_end().to_owned())
        => c02_names_are_data, "is to be a lock of its own";
    "names that are cut" = Flaw::StoresNames(|name| name.chars().take(255).collect())
        => c02_names_are_data, "is to be a lock of its own";
    "a record after the loss" = Flaw::RecordsAfterLoss
        => c42_a_holder_that_lost_the_lock_cannot_record, "a holder is not to record after its eviction";
    "a record for another hold of the same owner" = Flaw::RecordsUnderAnyToken
        => c42_a_holder_that_lost_the_lock_cannot_record,
            "a holder is not to record under the token of an earlier hold";
    "a record that does not end" = Flaw::RecordsForEver
        => c42_a_record_ends, "a record ends";
    "a record that is not forgotten" = Flaw::ForgetsNothing
        => c42_a_run_that_is_forgotten_runs_again, "one record alone is to be forgotten";
    "occurrences in any case" = Flaw::OccurrencesInAnyCase
        => c42_occurrences_are_data, "is to be a record of its own";
    "a watch that tells of no loss" = Flaw::WatchTellsOfNoLoss
        => c12_a_hold_is_renewed_past_its_ttl, "a hold that is renewed is to last";
    "since when moves" = Flaw::SinceMoves
        => c45_a_holder_tells_since_when, "a renewal is not to move since when a lock is held";
    "an inspection that answers late" = Flaw::InspectsLate
        => c40_a_leader_that_resigns_hands_over_at_once, "the one who was elected is to be shown as the leader";
    "an inspection of a hold that expired" = Flaw::ShowsTheExpired
        => c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal, "a watch is to show the end of a TTL";
    "a watch that moves since when" = Flaw::SinceMoves
        => c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal, "a renewal is not to be shown as a change";
    "changes that are never told" = Flaw::TellsNoChanges
        => c44_what_is_told_is_shown_between_two_polls, "a watch is to show a grant";
}
