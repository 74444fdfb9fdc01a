//! A few worlds of each kind, and the seeds of worlds that once failed.

use lock_proof::{Flaw, play};

/// Number of worlds of each test.
const WORLDS: u64 = 150;

#[test]
fn p2_no_world_breaks_a_clause() {
    for seed in 0..WORLDS {
        let outcome = play(seed, None);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
    }
}

#[test]
fn a_world_plays_again_to_the_letter() {
    for seed in 0..20 {
        assert_eq!(play(seed, None), play(seed, None), "seed {seed}");
    }
}

#[test]
fn c15_a_last_try_that_is_on_its_way_is_no_certain_refusal() {
    for seed in [1591, 3751] {
        let outcome = play(seed, None);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
    }
}

#[test]
fn p2_a_late_push_is_older_than_a_busy_after_it() {
    let outcome = play(440_836, None);
    assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
}

/// The worlds from `first` on are enough to notice each flaw.
#[test]
fn each_flaw_is_noticed() {
    use Flaw::*;
    let from = |flaw: Flaw| match flaw {
        ReleaseByName => 49,
        PushStampedOnArrival => 498,
        ExtensionOfTheLost => 1039,
        TokensReservedTwice => 436,
        NobodyKeptOut => 477,
        UnknownToldAsNo => 323,
        SlowClock => 13,
        NoFence => 82,
        WithdrawalForgotten => 69,
        _ => 0,
    };
    for &flaw in Flaw::ALL {
        let seeds = from(flaw)..from(flaw) + 20;
        let noticed = seeds.into_iter().any(|seed| !play(seed, Some(flaw)).violations.is_empty());
        assert!(noticed, "{flaw} went unnoticed");
    }
}
