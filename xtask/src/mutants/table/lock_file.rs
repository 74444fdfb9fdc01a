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
        name: "a waiter that was silent is served",
        file: "lock-file/src/queue_entry.rs",
        from: "now.uptime.saturating_sub(self.seen) <= WAITER_LIVENESS",
        to: "now.uptime.saturating_sub(self.seen) <= WAITER_LIVENESS * 2",
        test: "-p lock-file --lib c28_a_waiter_that_was_silent_is_passed_over",
    },
    Mutant {
        name: "a withdrawn waiter amid others keeps its place",
        file: "lock-file/src/queue.rs",
        from: "write(file, queued.place, &[0; ENTRY_BYTES])?;",
        to: "let _ = queued.place;",
        test: "-p lock-file --lib c19_a_withdrawal_takes_back_any_place",
    },
    Mutant {
        name: "a torn entry counts",
        file: "lock-file/src/queue_entry.rs",
        from: "if crc != checksum(bytes) {",
        to: "if crc == 0 {",
        test: "-p lock-file --lib an_entry_that_is_torn_at_any_byte_is_the_old_one_the_new_one_or_nobodys",
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
        name: "a reboot keeps holds and waiters",
        file: "lock-file/src/lock.rs",
        from: "if lock.now.is_in_boot_of(written) =>",
        to: "if lock.now.is_in_boot_of(written) || record.token.get() > 0 =>",
        test: "-p lock-file --lib a_reboot_ends_a_hold_though_the_clock_is_behind_its_deadline",
    },
    Mutant {
        name: "a container with a boot id of its own sees no holds of others",
        file: "lock-file/src/machine.rs",
        from: "_ => written.uptime <= self.uptime,",
        to: "_ => written.boot == self.boot,",
        test: "-p lock-file --lib s3_without_a_boot_id_a_hold_lives_from_when_it_was_written_to_its_deadline",
    },
    Mutant {
        name: "the boot id of a container is taken for the kernel's",
        file: "lock-file/src/platform/linux.rs",
        from: "== PROC && told && !mounted;",
        to: "!= 1 && (told || mounted);",
        test: "-p lock-file --test containers s3_containers_of_one_kernel_exclude_each_other",
    },
    Mutant {
        name: "the offset of a time namespace is not taken off",
        file: "lock-file/src/machine.rs",
        from: "(self.uptime)().as_nanos() as i128 - self.offset;",
        to: "(self.uptime)().as_nanos() as i128 - self.offset.min(0).max(0);",
        test: "-p lock-file --test containers s3_containers_of_one_kernel_exclude_each_other",
    },
    Mutant {
        name: "others may write the directory",
        file: "lock-file/src/platform/linux.rs",
        from: "if mode & 0o022 != 0 {",
        to: "if mode & 0o002 != 0 {",
        test: "-p lock-file --lib s3_a_directory_that_others_may_write_is_refused",
    },
    Mutant {
        name: "a planted file is followed",
        file: "lock-file/src/platform/linux.rs",
        from: "let flags = OFlags::RDWR | OFlags::NOFOLLOW",
        to: "let flags = OFlags::RDWR",
        test: "-p lock-file --lib a_planted_file_is_refused_and_what_it_points_at_is_untouched",
    },
    Mutant {
        name: "FUSE is local",
        file: "lock-file/src/platform/linux.rs",
        from: "if LOCAL.contains(&magic) {",
        to: "if LOCAL.contains(&magic) || magic == 0x6573_5546 {",
        test: "-p lock-file --lib a_file_system_is_known_to_be_local_or_refused_by_its_name",
    },
    Mutant {
        name: "a release leaves the lock to whoever comes",
        file: "lock-file/src/directory.rs",
        from: "self.tell(lock.pass_on()?);
        Ok(Release::Released)",
        to: "lock.write()?;
        Ok(Release::Released)",
        test: "-p lock-file --lib c27_a_release_grants_to_the_first_and_no_newcomer_overtakes",
    },
    Mutant {
        name: "an expired lock is left to whoever comes",
        file: "lock-file/src/directory.rs",
        from: "let mut told = lock.hand_over()?;",
        to: "let mut told = Vec::<Notification>::new();",
        test: "-p lock-file --lib c27_a_newcomer_to_an_expired_lock_finds_it_granted_to_the_first",
    },
    Mutant {
        name: "a waiter whose process is dead keeps its grant",
        file: "lock-file/src/directory.rs",
        from: "told.extend(self.take_back(&next).unwrap_or_default());",
        to: "let _ = next;",
        test: "-p lock-file --lib c28_a_waiter_whose_socket_nobody_has_is_passed_over",
    },
    Mutant {
        name: "a grant that nobody claims lasts its whole TTL",
        file: "lock-file/src/queue_entry.rs",
        from: "let ttl = self.ttl.min(UNCLAIMED_GRANT_TTL);",
        to: "let ttl = self.ttl.max(UNCLAIMED_GRANT_TTL);",
        test: "-p lock-file --lib c28_a_grant_that_nobody_claims_is_short",
    },
    Mutant {
        name: "a withdrawn waiter keeps its place",
        file: "lock-file/src/directory.rs",
        from: "        lock.leave(owner)?;
",
        to: "",
        test: "-p lock-file --lib c19_a_withdrawal_takes_back_any_place",
    },
    Mutant {
        name: "a queue that moves is written over the one in force",
        file: "lock-file/src/queue.rs",
        from: "let head = parts.take(room);",
        to: "let head = parts.take(room).min(0);",
        test: "-p lock-file --lib a_change_of_a_queue_that_is_cut_at_any_byte_leaves_the_queue_before_or_after",
    },
    Mutant {
        name: "a hold that was claimed is taken back",
        file: "lock-file/src/directory.rs",
        from: "if lock.holds.of(owner) != Some(&granted.held) {",
        to: "if lock.holds.of(owner).is_none() {",
        test: "-p lock-file --lib s3_a_waiter_that_found_its_grant_before_it_could_not_be_told_keeps_it",
    },
    Mutant {
        name: "a reader passes a waiting writer",
        file: "lock-file/src/lock.rs",
        from: "Admission::Fits(_) if !self.queue.is_empty() => Admission::Waits,",
        to: "Admission::Fits(_) if self.token.is_none() => Admission::Waits,",
        test: "-p lock-file --lib c34_a_writer_that_fell_silent_keeps_out_no_reader",
    },
    Mutant {
        name: "those behind a writer that left wait on",
        file: "lock-file/src/directory.rs",
        from: "since those behind it may fit.
        self.tell(lock.pass_on()?);",
        to: "since those behind it may fit.
        lock.write()?;",
        test: "-p lock-file --lib c34_a_writer_that_leaves_the_queue_lets_in_the_readers_behind_it",
    },
    Mutant {
        name: "a permit is not freed at its expiry",
        file: "lock-file/src/lock.rs",
        from: "        self.holds.expire(self.now.uptime);
",
        to: "",
        test: "-p lock-file --lib c38_a_holder_that_expired_frees_its_part_and_no_other",
    },
    Mutant {
        name: "several holds are written over those in force",
        file: "lock-file/src/lock.rs",
        from: "self.parts.add(table.part());",
        to: "",
        test: "-p lock-file --lib a_change_of_several_holds_that_is_cut_at_any_byte_leaves_them_as_before_or_after",
    },
    Mutant {
        name: "the file is cut though holds lie behind its record",
        file: "lock-file/src/lock.rs",
        from: "self.queue.is_empty() && !matches!(holders, Holders::Several(..));",
        to: "self.queue.is_empty();",
        test: "-p lock-file --lib c34_a_release_lets_in_a_whole_run_of_readers",
    },
    Mutant {
        name: "a message is too short for all slots",
        file: "lock-file/src/sockets/linux.rs",
        from: "const LONGEST_MESSAGE: usize = 8192;",
        to: "const LONGEST_MESSAGE: usize = 256;",
        test: "-p lock-file --lib c36_a_waiter_is_told_of_all_its_slots",
    },
    Mutant {
        name: "occurrence recorded after a loss, on files",
        file: "lock-file/src/directory.rs",
        from: "if !lock.holds.has(record.owner, record.token) {",
        to: "if lock.holds.as_slice().len() > 1 {",
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
