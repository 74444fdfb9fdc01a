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

/// Number of worlds, from a seed on, that must be enough to notice a flaw.
const ENOUGH: u64 = 20;

/// The checks that notice each flaw: the flaw, the clause and a part of the message of the check, and a seed a little before
/// a world in which it does.
const NOTICED: &[(Flaw, &str, &str, u64)] = {
    use Flaw::*;
    &[
        (ReleaseByName, "P2: ", "both believe", 49),
        (TokenReused, "S2: ", "one token", 0),
        (HoldEndsEarly, "P2: ", "both believe", 0),
        (SlowClock, "P2: ", "both believe", 13),
        (PushStampedOnArrival, "P2: ", "both believe", 4173),
        (NoFence, "S1: ", "wrote after", 82),
        (NoFence, "S4: ", "increments came to", 263),
        (ExclusiveTakenForShared, "P2: ", "both believe", 0),
        (SlotGivenTwice, "P2: ", "both believe", 0),
        (WithdrawalForgotten, "R1: ", "is held by", 61),
        (ReleaseForgotten, "R1: ", "is held by", 0),
        (ExtensionOfTheLost, "S2: ", "tokens", 1039),
        (TokensReservedTwice, "S2: ", "tokens", 2050),
        (PlaceLost, "C34: ", "was served before", 0),
        (RecordForgotten, "C42: ", "ran after", 0),
        (NobodyKeptOut, "C41: ", "began within", 120),
        (StateFrozen, "C40: ", "was shown last", 19),
        (UnknownToldAsNo, "C15: ", "may hold", 323),
        (UnknownToldAsNo, "C15: ", "released", 1762),
        (SleepUnnoticed, "C9: ", "late", 0),
        (PatientClient, "C17: ", "took", 26),
        (ReleaseUnanswered, "R1: ", "the shutdown of", 0),
        (ReleaseTellsFailures, "C47: ", "a release told", 0),
        (HoldStays, "L1: ", "somebody waits", 43),
        (SilentWaiterStays, "L1: ", "cannot be taken", 100),
        (HoldsNotShared, "C43: ", "beside", 0),
        (ObserverForgets, "C40: ", "was shown twice", 0),
        (ObserverForgets, "C40: ", "was shown after", 19),
    ]
};

#[test]
fn each_flaw_breaks_its_clause() {
    for &(flaw, clause, part, first) in NOTICED {
        let tells = |told: &String| told.starts_with(clause) && told.contains(part);
        let mut seeds = first..first + ENOUGH;
        let is_noticed = seeds.any(|seed| play(seed, Some(flaw)).violations.iter().any(tells));
        assert!(is_noticed, "{flaw} does not break {clause}: {part}");
    }
}

#[test]
fn each_flaw_has_a_clause() {
    for flaw in Flaw::ALL {
        assert!(NOTICED.iter().any(|(noticed, ..)| noticed == flaw), "{flaw} went unnoticed");
    }
}
