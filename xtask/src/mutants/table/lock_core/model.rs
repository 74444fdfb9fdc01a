//! The mutants of the words of the contract.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "drift ignored",
        file: "lock-core/src/model/drift.rs",
        from: "ttl.saturating_sub(ttl.mul_f64(rate))",
        to: "ttl.saturating_sub(ttl.mul_f64(rate * 0.0))",
        test: "-p lock-core --lib c05_the_drift_is_1_percent_and_2_ms",
    },
    Mutant {
        name: "clock that stops in suspend",
        file: "lock-core/src/model/clock.rs",
        from: "awake.min(deadline.boot.saturating_sub(self.boot))",
        to: "awake",
        test: "-p lock-core --lib c06_the_clock_counts_suspend",
    },
    Mutant {
        name: "names are shown as they are",
        file: "lock-core/src/model/name.rs",
        from: "f.pad(&Readable::new(&self.0).to_string())",
        to: "f.pad(&self.0)",
        test: "-p lock-core --lib c01_a_name_shows_what_cannot_be_seen",
    },
    Mutant {
        name: "what is no lock is an error like any other",
        file: "lock-core/src/model/error.rs",
        from: "if let (Some(name), Some(found)) = (name, source.found()) {",
        to: "if let (Some(name), Some(found), false) = (name, source.found(), true) {",
        test: "-p lock-core --test foreign c49_what_is_no_lock_is_an_error_at_once_however_long_the_wait",
    },
    Mutant {
        name: "a passed hold is renewed under its own token",
        file: "lock-core/src/model/claim.rs",
        from: "token: lease.granted_as, ttl",
        to: "token: lease.token, ttl",
        test: "-p lock-core --all-features --test passing c12_a_hold_that_was_passed_on_is_renewed",
    },
    Mutant {
        name: "a TTL that counts down is a change",
        file: "lock-core/src/model/state.rs",
        from: "holder.ttl_left = holder.ttl_left.map(|_| Duration::ZERO);",
        to: "holder.ttl_left = holder.ttl_left.map(|left| left);",
        test: "-p lock-core --lib c44_a_ttl_that_counts_down_is_no_change",
    },
    Mutant {
        name: "leaders beside each other",
        file: "lock-core/src/model/request.rs",
        from: "Self { kind: RequestedKind::Exclusive, reentrance: None, ..self }",
        to: "Self { reentrance: None, ..self }",
        test: "-p lock-core --test watching c40_a_leader_is_alone",
    },
    Mutant {
        name: "what is left of at_least by the faster clock",
        file: "lock-core/src/model/at_least.rs",
        from: "let certain = self.drift.validity(self.began.elapsed());",
        to: "let certain = self.began.elapsed();",
        test: "-p lock-core --lib c41_what_is_left_is_never_less_than_by_a_slower_clock",
    },
    Mutant {
        name: "a later try hides an unknown outcome",
        file: "lock-core/src/model/backend_error.rs",
        from: "earlier.outcome == Outcome::Unknown && self.outcome == Outcome::NotApplied",
        to: "earlier.outcome == Outcome::NotApplied && self.outcome == Outcome::NotApplied",
        test: "-p lock-core --lib c15_",
    },
];
