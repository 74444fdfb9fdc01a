//! A quorum whose servers restart with their data, with old data or without, are let in, and get holds back, while
//! holds are renewed, released and evicted, and messages arrive at any time or never.
//!
//! Time is discrete: a TTL is some ticks, an answer counts for one, and a restarted server waits for one before it is
//! let in. The protocol must pass, and each looser one must fail: by a search, or by a way that was found once.
//! `proof/tests/ballots` has the attempts of one owner, and other rules for tokens.

#![allow(clippy::expect_used, clippy::panic)]

mod rule;
mod search;
mod state;
mod voter;
mod world;

use crate::rule::{Kind, Rule};
use crate::search::{Searched, follow, search, wander};
use crate::world::{Budget, Fault, Kept, Settings, Step};

/// A hold and a candidate.
const TWO: &[&[u8]] = &[&[2], &[3]];
const MANY: &[&[u8]] = &[&[2], &[1, 3], &[1, 2, 4]];

const NOTHING: Budget = Budget { restarts: 0, saves: 0, evictions: 0, releases: 0 };

/// Three servers, a hold on two of them, and a restart without data.
const SMALL: Settings = Settings {
    rule: Rule::Protocol,
    voters: 3,
    ttl: 2,
    holds: TWO,
    stands_on: 2,
    rounds: 0,
    kept: &[Kept::Nothing],
    budget: Budget { restarts: 1, ..NOTHING },
    fault: None,
    sorts: true,
};

/// The same with a hold on all three, whose files say so, and an eviction.
const EVICTION: Settings = Settings {
    ttl: 3,
    holds: &[&[2]],
    stands_on: 3,
    rounds: 2,
    kept: &[Kept::Nothing, Kept::File],
    budget: Budget { restarts: 1, evictions: 1, ..NOTHING },
    ..SMALL
};

/// Many restarts of each kind.
const LONG: Settings = Settings {
    ttl: 3,
    holds: MANY,
    stands_on: 3,
    rounds: 9,
    kept: &[Kept::Nothing, Kept::File, Kept::Everything],
    budget: Budget { restarts: 3, saves: 2, evictions: 1, releases: 1 },
    sorts: false,
    ..SMALL
};

fn passes(settings: &Settings, most: usize) -> Searched {
    let searched = search(settings, most).unwrap_or_else(|way| panic!("{settings:?}: {way:?}"));
    println!("{settings:?}: {} states, no fault", searched.states);
    searched
}

#[test]
fn p2_a_quorum_passes_in_every_order_of_steps() {
    let releases = Budget { releases: 1, ..SMALL.budget };
    let released = Settings { holds: &[&[3], &[2]], budget: releases, ..SMALL };
    for settings in [SMALL, released] {
        assert!(passes(&settings, usize::MAX).is_complete);
    }
}

/// These have too many states for all of them.
#[test]
fn p2_a_quorum_passes_in_the_first_steps_of_larger_models() {
    let renewed = Settings { rounds: 1, ..SMALL };
    let from_nothing = Settings { stands_on: 0, ..SMALL };
    let beside = Settings { ttl: 2, holds: TWO, rounds: 1, kept: &[Kept::File], ..EVICTION };
    for settings in [renewed, from_nothing, EVICTION, beside] {
        passes(&settings, 60_000);
    }
}

#[test]
fn p2_a_quorum_passes_on_random_ways() {
    let five = Settings { voters: 5, budget: Budget { restarts: 4, ..LONG.budget }, ..LONG };
    for (seed, settings) in
        [LONG, Settings { stands_on: 0, ttl: 2, ..LONG }, five].iter().enumerate()
    {
        let ways = wander(settings, seed as u64, 20_000);
        let ways = ways.unwrap_or_else(|way| panic!("{settings:?}: {way:?}"));
        println!("{settings:?}: {ways} random ways, no fault");
    }
}

/// The positive controls: without a part of the admission, two hold or a token falls.
#[test]
fn p2_an_admission_without_one_of_its_parts_is_seen_to_fail() {
    let released = Budget { releases: 1, ..SMALL.budget };
    for (settings, fault) in [
        (Settings { rule: Rule::VotesAtOnce, ..SMALL }, Fault::TwoBelieve),
        (Settings { rule: Rule::LetInAtOnce, stands_on: 0, ..SMALL }, Fault::TwoBelieve),
        (
            Settings { rule: Rule::NoFloor, holds: &[&[3], &[2]], budget: released, ..SMALL },
            Fault::TokenFalls,
        ),
    ] {
        let way = search(&Settings { fault: Some(fault), ..settings }, 300_000);
        let way = way.expect_err("a fault");
        println!("{:?}: {way:?}", settings.rule);
        assert_eq!(way.fault, fault);
    }
}

/// Goes a way to its fault under a looser rule, and shows that it is none under the protocol.
fn leads_astray(settings: Settings, rules: &[Rule], fault: Fault, way: &[Step]) {
    let settings = Settings { sorts: false, fault: Some(fault), ..settings };
    for rule in rules {
        let found = follow(&Settings { rule: *rule, ..settings }, way);
        assert_eq!(found, Err(Ok(fault)), "{rule:?}");
    }
    let protocol = follow(&Settings { rule: Rule::Protocol, ..settings }, way);
    assert!(!matches!(protocol, Err(Ok(_))), "{protocol:?}");
}

/// A renewal of the hold, which these servers answer.
fn renewal(of: &[usize]) -> Vec<Step> {
    let arrivals = of.iter().map(|server| Step::Arrive(Kind::Extend, 0, *server));
    std::iter::once(Step::Renew(0)).chain(arrivals).chain([Step::Extended(0)]).collect()
}

/// The eviction reaches the first server, which restarts with its file, and the second.
const EVICTED: [Step; 5] = [
    Step::Evict(0),
    Step::Arrive(Kind::Evict, 0, 0),
    Step::Restart(0, Kept::File),
    Step::Arrive(Kind::Evict, 0, 1),
    Step::Evicted,
];

#[test]
fn p2_a_renewal_that_counts_a_server_with_its_old_file_undoes_an_eviction() {
    let way = [&EVICTED[..], &renewal(&[0, 2])].concat();
    leads_astray(EVICTION, &[Rule::AboveTheCounter], Fault::EvictedGoesOn, &way);
    // A server that was let in, but is out, has the key too.
    let let_in = [Step::Seen(0), Step::Tick, Step::LetIn(0, 0b110)];
    let way = [&EVICTED[..], &let_in, &renewal(&[0, 2])].concat();
    let rules = [Rule::AboveTheCounter, Rule::EqualCounter, Rule::EndAboveBallot];
    leads_astray(EVICTION, &rules, Fault::EvictedGoesOn, &way);
}

#[test]
fn c11_a_late_vote_at_an_equal_counter_brings_a_released_hold_back() {
    let end =
        [Step::Release(0), Step::Arrive(Kind::Release, 0, 2), Step::Arrive(Kind::Restore, 0, 2)];
    let way = [&renewal(&[0, 1, 2])[..], &end].concat();
    let budget = Budget { releases: 1, ..NOTHING };
    let rules = [Rule::EqualCounter, Rule::NoEnds];
    leads_astray(Settings { rounds: 1, budget, ..SMALL }, &rules, Fault::Revived, &way);
}

#[test]
fn c11_a_renewal_undoes_an_eviction_under_way_that_leaves_no_number() {
    let evicted = |at| Step::Arrive(Kind::Evict, 0, at);
    let way = [
        &[Step::Evict(0), evicted(2)],
        &renewal(&[0, 1, 2])[..],
        &[Step::Arrive(Kind::Restore, 0, 2), evicted(1), Step::Evicted],
        &renewal(&[0, 2]),
    ]
    .concat();
    let rules = [Rule::EqualCounter, Rule::NoEnds];
    leads_astray(EVICTION, &rules, Fault::EvictedGoesOn, &way);
}

/// Candidates ask each second.
#[test]
fn c12_a_candidate_raises_the_counter_above_a_hold_that_is_to_be_restored() {
    let way = [Step::Ask(1, 3), Step::GiveUp(1), Step::Arrive(Kind::Back, 1, 2)];
    let rules = [Rule::AboveTheCounter, Rule::EqualCounter, Rule::EndAboveBallotInOnly];
    leads_astray(SMALL, &rules, Fault::NotRestorable, &way);
}
