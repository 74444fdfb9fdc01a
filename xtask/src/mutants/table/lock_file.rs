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
    Mutant {
        name: "a release leaves the lock to whoever comes",
        file: "lock-file/src/hand_over.rs",
        from: "Some(first) => grant_to(&first, &record, now),",
        to: "Some(_) => Ok((record.released(), None)),",
        test: "-p lock-file --lib c27_a_release_grants_to_the_first_and_no_newcomer_overtakes",
    },
    Mutant {
        name: "a newcomer overtakes those who wait",
        file: "lock-file/src/directory.rs",
        from: "Some(other) if other.entry.owner != claim.owner => {",
        to: "Some(other) if other.entry.owner != claim.owner && other.entry.owner == claim.owner => {",
        test: "-p lock-file --lib c27_a_newcomer_to_an_expired_lock_finds_it_granted_to_the_first",
    },
    Mutant {
        name: "a waiter whose process is dead keeps its grant",
        file: "lock-file/src/directory.rs",
        from: "next = self.take_back(&told.granted).ok().flatten();",
        to: "next = None;",
        test: "-p lock-file --lib c28_a_waiter_whose_socket_nobody_has_is_passed_over",
    },
    Mutant {
        name: "a waiter that was silent is served",
        file: "lock-file/src/queue_entry.rs",
        from: "now.uptime.saturating_sub(self.seen) <= WAITER_LIVENESS",
        to: "now.uptime.saturating_sub(self.seen) <= WAITER_LIVENESS * 2",
        test: "-p lock-file --lib c28_a_waiter_that_was_silent_is_passed_over",
    },
    Mutant {
        name: "a grant that nobody claims lasts its whole TTL",
        file: "lock-file/src/hand_over.rs",
        from: "let ttl = entry.ttl.min(UNCLAIMED_GRANT_TTL);",
        to: "let ttl = entry.ttl.max(UNCLAIMED_GRANT_TTL);",
        test: "-p lock-file --lib c28_a_grant_that_nobody_claims_is_short",
    },
    Mutant {
        name: "a withdrawn waiter keeps its place",
        file: "lock-file/src/directory.rs",
        from: "        if before != after {",
        to: "        if before != before {",
        test: "-p lock-file --lib c19_a_withdrawal_takes_back_any_place",
    },
    Mutant {
        name: "a withdrawn waiter amid others keeps its place",
        file: "lock-file/src/queue.rs",
        from: "write(file, queued.place, &[0; ENTRY_BYTES])?;",
        to: "let _ = queued.place;",
        test: "-p lock-file --lib c19_a_withdrawal_takes_back_any_place",
    },
    Mutant {
        name: "a queue that moves is written over the one in force",
        file: "lock-file/src/queue.rs",
        from: "let head = if room <= self.head { 0 } else { self.limit };",
        to: "let head = 0;",
        test: "-p lock-file --lib a_change_of_a_queue_that_is_cut_at_any_byte_leaves_the_queue_before_or_after",
    },
    Mutant {
        name: "a torn entry counts",
        file: "lock-file/src/queue_entry.rs",
        from: "if crc != checksum(bytes) {",
        to: "if crc == 0 {",
        test: "-p lock-file --lib an_entry_that_is_torn_at_any_byte_is_the_old_one_the_new_one_or_nobodys",
    },
    Mutant {
        name: "waiters outlive a reboot",
        file: "lock-file/src/record.rs",
        from: "if is_of_this_boot { self.queue } else { Queue::default() }",
        to: "if is_of_this_boot { self.queue } else { self.queue }",
        test: "-p lock-file --lib a_reboot_ends_the_queue_with_the_hold",
    },
    Mutant {
        name: "the socket of a dead process stays",
        file: "lock-file/src/sockets/linux.rs",
        from: "let _ = fs::remove_file(self.path_of(name));
                Told::Nobody",
        to: "Told::Nobody",
        test: "-p lock-file --lib c28_the_socket_of_a_dead_process_is_gone_and_its_file_is_removed",
    },
    Mutant {
        name: "a socket that is just being made is removed",
        file: "lock-file/src/sockets/linux.rs",
        from: "name.filter(|_| age >= SETTLED)",
        to: "name.filter(|_| age < Duration::MAX)",
        test: "-p lock-file --lib r01_dead_sockets_are_removed_by_the_next_that_listens_unless_they_are_young",
    },
    Mutant {
        name: "the path of a socket is as long as its directory's",
        file: "lock-file/src/sockets/linux.rs",
        from: "path.as_os_str().len() < PATH_LIMIT",
        to: "path.as_os_str().len() < PATH_LIMIT * 100",
        test: "-p lock-file --lib a_directory_may_be_deep",
    },
    Mutant {
        name: "a hold that was claimed is taken back",
        file: "lock-file/src/record.rs",
        from: "self.hold(now).is_some() && self.hold == granted.hold",
        to: "self.hold(now).is_some() && granted.hold.is_some()",
        test: "-p lock-file --lib s3_a_waiter_that_found_its_grant_before_it_could_not_be_told_keeps_it",
    },
    Mutant {
        name: "occurrence recorded after a loss, on files",
        file: "lock-file/src/directory.rs",
        from: "if !lock.is_held_by(record.owner, &now) || lock.token != record.token {",
        to: "if false && lock.token != record.token {",
        test: "-p lock-file --test conformance c42_a_holder_that_lost_the_lock_cannot_record",
    },
    Mutant {
        name: "records are never removed, on files",
        file: "lock-file/src/runs.rs",
        from: "let _ = fs::remove_file(file);",
        to: "",
        test: "-p lock-file --lib c42_old_records_make_room",
    },
];
