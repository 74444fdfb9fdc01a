//! The list of broken backends.

use std::sync::Arc;
use std::time::Duration;

use lock_core::DistributedLock;

use super::batches::{self, Batches};
use super::blocking::{Blocking, BlockingList};
use super::endings::{AlwaysReleased, EvictionTellsNobody, ReleaseOfAnyOwner};
use super::exclusion::CheckThenGrant;
use super::extensions::{AnyOwnerExtends, AnyTokenExtends, ExtensionRevives};
use super::flaw::{Flawless, flawed};
use super::listing::{self, Listing, ListsTheExpired};
use super::names::{self, Names};
use super::once::{
    ForgetsNothing, OccurrencesInAnyCase, RecordsAfterLoss, RecordsForEver, RecordsUnderAnyToken,
    ReleasesAtOnce, StaysItsOwners,
};
use super::owners::{self, ErrorShowsOwner, InspectionShowsOwner};
use super::repeats::{RepeatIsAnotherGrant, RepeatIsBusy};
use super::reservations::{NeverYields, Unreserved};
use super::several::{TakesForTheWithdrawn, TakesOne, TakesPastTheBusy};
use super::short_ttl::ShortTtl;
use super::shortening::ExtensionShortens;
use super::tokens::{Numbered, Tokens};
use super::waiting::{BusyTellsNothing, EvictionForgetsWaiters, WakesNobody};
use super::watching::{
    InspectsLate, ShowsTheExpired, SinceMoves, TellsNoChanges, WatchTellsOfNoLoss,
};
use super::withdrawals::{RefusedForNow, Remembered, WithdrawalOfAnyOwner};

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

/// Returns the sound backend, in the same wrapper as the broken ones: all cases accept it.
pub fn unbroken() -> Arc<dyn DistributedLock> {
    flawed(Flawless)
}

const fn broken(
    name: &'static str,
    case: &'static str,
    expected: &'static str,
    make: fn() -> Arc<dyn DistributedLock>,
) -> Break {
    Break { name, case, expected, make }
}

/// All broken backends.
pub const BREAKS: &[Break] = &[
    broken(
        "check and grant in two steps",
        "s3_of_many_that_try_at_once_one_is_granted",
        "the server is to grant one the lock",
        || flawed(CheckThenGrant),
    ),
    broken(
        "70 % of the TTL after a grant",
        "c04_a_grant_lasts_for_all_of_its_ttl",
        "the server is to keep a grant for the",
        || flawed(ShortTtl { grant: 0.7, ..ShortTtl::default() }),
    ),
    broken(
        "70 % of the TTL after a repeated acquire",
        "c16_a_repeated_acquire_lasts_for_all_of_its_ttl",
        "the server is to keep a repeated acquire for the",
        || flawed(ShortTtl { repeat: 0.7, ..ShortTtl::default() }),
    ),
    broken(
        "a repeated acquire renews nothing",
        "c16_a_repeated_acquire_lasts_for_all_of_its_ttl",
        "the server is to keep a repeated acquire for the",
        || flawed(ShortTtl { repeat: 0.0, ..ShortTtl::default() }),
    ),
    broken(
        "70 % of the TTL after an extension",
        "c12_an_extension_lasts_for_all_of_its_ttl",
        "the server is to keep an extension for the",
        || flawed(ShortTtl { extension: 0.7, ..ShortTtl::default() }),
    ),
    broken(
        "an extension renews nothing",
        "c12_an_extension_lasts_for_all_of_its_ttl",
        "the server is to keep an extension for the",
        || flawed(ShortTtl { extension: 0.0, ..ShortTtl::default() }),
    ),
    broken(
        "an extension shortens the hold",
        "c10_extending_twice_at_once_is_safe",
        "the server is to keep the longest extension",
        || flawed(ExtensionShortens::default()),
    ),
    broken(
        "an extension revives an expired hold",
        "c10_an_expired_hold_is_over",
        "the server is not to extend a hold that expired",
        || flawed(ExtensionRevives),
    ),
    broken(
        "an extension by any owner",
        "s5_nobody_but_the_owner_extends_or_ends_a_hold",
        "a stranger is not to extend a hold",
        || flawed(AnyOwnerExtends),
    ),
    broken(
        "an extension by any token",
        "c10_a_later_grant_to_the_same_owner_is_another_hold",
        "the server is never to extend a hold that is over",
        || flawed(AnyTokenExtends),
    ),
    broken(
        "a batch answered in another order",
        "c12_a_batch_is_answered_in_its_order",
        "the answers to a batch are to be in the order of its questions",
        || flawed(Batches::that_answer(batches::in_another_order)),
    ),
    broken(
        "a batch that one lost hold loses",
        "c12_a_batch_is_answered_in_its_order",
        "the answers to a batch are to be in the order of its questions",
        || flawed(Batches::that_answer(batches::all_or_none)),
    ),
    broken(
        "a batch without answers for lost holds",
        "c12_a_batch_is_answered_in_its_order",
        "a batch is to have an answer for each question",
        || flawed(Batches::that_answer(batches::only_the_extended)),
    ),
    broken(
        "a batch with one TTL for all",
        "c12_a_batch_is_answered_in_its_order",
        "each hold is to get the TTL that was asked for it",
        || flawed(Batches::that_ask(batches::one_ttl_for_all)),
    ),
    broken(
        "a listing by LIKE and %",
        "c02_a_listing_takes_prefixes_as_data",
        "a listing is to take \"%\" as itself",
        || flawed(Listing::of(listing::with_percent)),
    ),
    broken(
        "a listing by LIKE and _",
        "c02_a_listing_takes_prefixes_as_data",
        "a listing is to take \"_\" as itself",
        || flawed(Listing::of(listing::with_underscore)),
    ),
    broken(
        "a listing in any case",
        "c02_a_listing_takes_prefixes_as_data",
        "a listing is to take \"A\" as itself",
        || flawed(Listing::of(listing::in_any_case)),
    ),
    broken(
        "an unsorted listing",
        "c02_a_listing_takes_prefixes_as_data",
        "a listing is to be sorted by name",
        || flawed(Listing::of(listing::unsorted)),
    ),
    broken(
        "an unbounded listing",
        "c02_a_listing_takes_prefixes_as_data",
        "a listing is to show the first 0 at most",
        || flawed(Listing::of(listing::unbounded)),
    ),
    broken(
        "a listing of expired holds",
        "c04_a_hold_that_is_over_is_not_listed",
        "a listing is to show what is held",
        || flawed(ListsTheExpired),
    ),
    broken(
        "an owner id in an error's text",
        "c32_no_error_shows_an_owner",
        "no error is to show an owner id",
        || flawed(ErrorShowsOwner::by(owners::in_its_text)),
    ),
    broken(
        "an owner id in an error's source",
        "c32_no_error_shows_an_owner",
        "no error is to show an owner id",
        || flawed(ErrorShowsOwner::by(owners::in_its_source)),
    ),
    broken(
        "an owner id in an inspection",
        "c32_no_text_shows_an_owner",
        "no text is to show an owner id",
        || flawed(InspectionShowsOwner),
    ),
    broken(
        "a driver that blocks",
        "r2_no_call_keeps_the_thread",
        "is to leave the thread to other tasks while it waits",
        || flawed(Blocking),
    ),
    broken(
        "a listing that blocks",
        "r2_no_call_keeps_the_thread",
        "list is to leave the thread to other tasks while it waits",
        || flawed(BlockingList),
    ),
    broken(
        "a withdrawal that is not remembered",
        "c19_a_late_request_of_a_withdrawn_claim_is_refused",
        "a late request of a withdrawn claim is to be refused",
        || flawed(Remembered::for_a(Duration::ZERO)),
    ),
    broken(
        "a withdrawal that is forgotten early",
        "c19_a_withdrawal_is_remembered",
        "a late request of a withdrawn claim is to be refused",
        || flawed(Remembered::for_a(Duration::from_secs(3))),
    ),
    broken(
        "a withdrawal that leaves the place in the queue",
        "c14_a_bounded_wait_times_out",
        "a wait that ended leaves no place in the queue",
        || flawed(Remembered::as_long_as_it_must_be()),
    ),
    broken(
        "a withdrawal of any owner's hold",
        "s5_nobody_but_the_owner_extends_or_ends_a_hold",
        "a stranger is not to end a hold",
        || flawed(WithdrawalOfAnyOwner),
    ),
    broken(
        "a late request that is refused for now",
        "c19_a_late_request_of_a_withdrawn_claim_is_refused",
        "the refusal is to say that no further try will help",
        || flawed(RefusedForNow),
    ),
    broken(
        "a release of any owner's hold",
        "s5_nobody_but_the_owner_extends_or_ends_a_hold",
        "a stranger is not to release a hold",
        || flawed(ReleaseOfAnyOwner),
    ),
    broken(
        "released, though nothing was held",
        "c16_a_repeated_acquire_finds_its_own_grant",
        "a release of nothing is to be told as not held",
        || flawed(AlwaysReleased),
    ),
    broken(
        "an eviction that tells nobody's name",
        "c24_an_evicted_holder_has_the_lesser_token",
        "an eviction is to tell whose hold it ended",
        || flawed(EvictionTellsNobody),
    ),
    broken(
        "an eviction that keeps the waiters waiting",
        "c28_an_eviction_lets_the_next_one_in",
        "a waiter is to get in after an eviction",
        || flawed(EvictionForgetsWaiters::default()),
    ),
    broken(
        "a release that wakes nobody",
        "c27_a_release_lets_the_next_one_in",
        "a release is to let the next one in within",
        || flawed(WakesNobody),
    ),
    broken(
        "a busy lock that tells nothing",
        "c14_busy_tells_what_is_known",
        "a busy lock is to tell the label of its holder",
        || flawed(BusyTellsNothing),
    ),
    broken(
        "a repeated acquire in its own way",
        "c16_a_repeated_acquire_finds_its_own_grant",
        "a repeat is to find its own grant",
        || flawed(RepeatIsBusy),
    ),
    broken(
        "a repeated acquire with another token",
        "c16_a_repeated_acquire_finds_its_own_grant",
        "a repeat is to find its grant with the same token",
        || flawed(RepeatIsAnotherGrant),
    ),
    broken(
        "tokens that begin anew after an eviction",
        "c22_tokens_grow_through_release_expiry_and_eviction",
        "each grant is to have a greater token",
        || flawed(Numbered::by(Tokens::AnewAfterEviction)),
    ),
    broken(
        "tokens that begin anew after an expiry",
        "c22_tokens_grow_through_release_expiry_and_eviction",
        "each grant is to have a greater token",
        || flawed(Numbered::by(Tokens::AnewAfterExpiry)),
    ),
    broken(
        "tokens of a clock of seconds",
        "c22_tokens_grow_through_release_expiry_and_eviction",
        "each grant is to have a greater token",
        || flawed(Numbered::by(Tokens::OfTheClock)),
    ),
    broken(
        "reserved tokens that are granted again",
        "c22_reserved_tokens_are_nobody_elses",
        "reserved tokens are to be greater than all before",
        || flawed(Unreserved),
    ),
    broken(
        "a reservation that never yields",
        "c26_a_reservation_yields_to_those_that_wait",
        "a hold that yields is to go to those that wait on the server",
        || flawed(NeverYields),
    ),
    broken(
        "an owner's old token after an expiry",
        "c10_an_expired_hold_is_over",
        "a grant after the expiry is to have a greater token",
        || flawed(Numbered::by(Tokens::OfTheOwner)),
    ),
    broken("names in lower case", "c02_names_are_data", "is to be a lock of its own", || {
        flawed(Names::stored(names::in_lower_case))
    }),
    broken(
        "names without blanks at the end",
        "c02_names_are_data",
        "is to be a lock of its own",
        || flawed(Names::stored(names::without_blanks_at_the_end)),
    ),
    broken("names that are cut", "c02_names_are_data", "is to be a lock of its own", || {
        flawed(Names::stored(names::cut_at_255))
    }),
    broken(
        "several that are taken past a busy one",
        "c39_no_lock_behind_a_busy_one_is_taken",
        "no lock behind a busy one is to be taken",
        || flawed(TakesPastTheBusy),
    ),
    broken(
        "several that are taken one by one",
        "c39_free_locks_are_taken_in_one_request",
        "locks that are free are to be taken in one request",
        || flawed(TakesOne),
    ),
    broken(
        "several that are taken for a withdrawn claim",
        "c39_a_withdrawn_claim_among_several_takes_nothing",
        "a withdrawn claim is to be granted nothing",
        || flawed(TakesForTheWithdrawn),
    ),
    broken(
        "a delayed release that frees the lock at once",
        "c41_a_delayed_release_ends_the_hold_then",
        "the server is to keep others out for",
        || flawed(ReleasesAtOnce),
    ),
    broken(
        "a delayed release that leaves the hold to its owner",
        "c41_a_hold_whose_release_is_delayed_is_nobodys",
        "what was released is not to be extended",
        || flawed(StaysItsOwners),
    ),
    broken(
        "a record after the loss",
        "c42_a_holder_that_lost_the_lock_cannot_record",
        "a holder is not to record after its eviction",
        || flawed(RecordsAfterLoss::default()),
    ),
    broken(
        "a record for another hold of the same owner",
        "c42_a_holder_that_lost_the_lock_cannot_record",
        "a holder is not to record under the token of an earlier hold",
        || flawed(RecordsUnderAnyToken),
    ),
    broken("a record that does not end", "c42_a_record_ends", "a record ends", || {
        flawed(RecordsForEver)
    }),
    broken(
        "a record that is not forgotten",
        "c42_a_run_that_is_forgotten_runs_again",
        "one record alone is to be forgotten",
        || flawed(ForgetsNothing),
    ),
    broken(
        "occurrences in any case",
        "c42_occurrences_are_data",
        "is to be a record of its own",
        || flawed(OccurrencesInAnyCase),
    ),
    broken(
        "a watch that tells of no loss",
        "c12_a_hold_is_renewed_past_its_ttl",
        "a hold that is renewed is to last",
        || flawed(WatchTellsOfNoLoss),
    ),
    broken(
        "since when moves",
        "c45_a_holder_tells_since_when",
        "a renewal is not to move since when a lock is held",
        || flawed(SinceMoves),
    ),
    broken(
        "an inspection that answers late",
        "c40_a_leader_that_resigns_hands_over_at_once",
        "the one who was elected is to be shown as the leader",
        || flawed(InspectsLate::default()),
    ),
    broken(
        "an inspection of a hold that expired",
        "c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal",
        "a watch is to show the end of a TTL",
        || flawed(ShowsTheExpired::default()),
    ),
    broken(
        "a watch that moves since when",
        "c44_a_watch_shows_the_end_of_a_ttl_and_no_renewal",
        "a renewal is not to be shown as a change",
        || flawed(SinceMoves),
    ),
    broken(
        "changes that are never told",
        "c44_what_is_told_is_shown_between_two_polls",
        "a watch is to show a grant",
        || flawed(TellsNoChanges),
    ),
];
