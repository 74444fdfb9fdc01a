//! The mutants of the worked example: `--package examples/memcached_backend`.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a register on Memcached replaced though it changed",
        file: "examples/memcached_backend/src/server.rs",
        from: "|cas| format!(\"C{cas}\")",
        to: "|_| \"MS\".to_owned()",
        test: "-p memcached-backend --test memcached races::s3_one_of_many_at_once_is_granted",
    },
    Mutant {
        name: "the seconds of Memcached taken for the time",
        file: "examples/memcached_backend/src/server.rs",
        from: "const CLOCK_ERROR: Duration = Duration::from_secs(2);",
        to: "const CLOCK_ERROR: Duration = Duration::ZERO;",
        test: "-p memcached-backend --test memcached races::c04_a_hold_lasts_for_what_was_granted",
    },
];
