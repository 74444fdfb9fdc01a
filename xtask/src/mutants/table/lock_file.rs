//! The mutants of `lock-file`.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "file written before the fence is asked",
        file: "lock-file/src/fence.rs",
        from: "fence.check(token)?;
            let replacement",
        to: "let replacement",
        test: "-p lock-file --lib a_stale_write_leaves_the_target_and_a_fresh_one_advances_the_fence",
    },
    Mutant {
        name: "no operating system lock on the file",
        file: "lock-file/src/locked_file.rs",
        from: "lock(&file, timeout)?;",
        to: "let _ = lock(&file, timeout).is_ok() && file.unlock().is_ok();",
        test: "-p lock-file --lib eight_clients_exclude_each_other_and_their_tokens_grow",
    },
    Mutant {
        name: "a reboot keeps the holds",
        file: "lock-file/src/record.rs",
        from: "(hold.boot == now.boot && now.uptime < hold.deadline)",
        to: "(now.uptime < hold.deadline)",
        test: "-p lock-file --lib a_reboot_ends_a_hold_though_the_clock_is_behind_its_deadline",
    },
    Mutant {
        name: "a renewal counts as a new grant",
        file: "lock-file/src/record.rs",
        from: "hold.deadline = hold.deadline.max(now.uptime + ttl.as_duration());",
        to: "hold.deadline = hold.deadline.max(now.uptime + ttl.as_duration());
            hold.since_micros = now.wall_micros;",
        test: "-p lock-file --lib c45_a_holder_has_the_time_of_its_grant",
    },
];
