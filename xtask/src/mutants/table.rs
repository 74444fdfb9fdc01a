//! The mutants. Keep each fault one that somebody could really write.

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "drift ignored",
        file: "lock-core/src/ttl.rs",
        from: "ttl.saturating_sub(ttl.mul_f64(self.rate))",
        to: "ttl",
        test: "-p lock-core --lib c05_the_drift_is_1_percent_and_2_ms",
    },
    Mutant {
        name: "fence lets stale tokens pass",
        file: "lock-core/src/fence.rs",
        from: "Ok(seen) if seen > token =>",
        to: "Ok(seen) if seen < token =>",
        test: "-p lock-core --lib c24_a_fence_accepts_equal_and_greater_tokens_only",
    },
];
