//! The mutants of `lock-redis`.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "plain DEL",
        file: "lock-redis/src/scripts/granting.lua",
        from: "if released == 1 then pass_on(holds, now, limit) end",
        to: "pass_on({ changed = true }, now, limit)
  released = 1",
        test: "-p leasehold --all-features --test redis c14_releasing_what_is_lost_is_not_held",
    },
    Mutant {
        name: "extend recreates",
        file: "lock-redis/src/scripts/extend.lua",
        from: "local value = redis.pcall('GET', lock)",
        to: "redis.call('SET', lock, hold, 'NX', 'PX', ttl_ms)
  local value = redis.pcall('GET', lock)",
        test: "-p leasehold --all-features --test redis c10_lost_is_final",
    },
    Mutant {
        name: "counter after SET",
        file: "lock-redis/src/scripts/acquire.lua",
        from: "local token = next_token(now)",
        to: "redis.call('SET', lock, me .. ':1:', 'PX', ttl_ms)
  local token = next_token(now)",
        test: "-p leasehold --all-features --test redis c22_a_damaged_counter_is_a_typed_error_and_takes_no_lock",
    },
    Mutant {
        name: "tokens by a plain counter",
        file: "lock-redis/src/scripts/granting.lua",
        from: "if not last then return integer(now) end",
        to: "if not last then return '1' end now = 0",
        test: "-p leasehold --all-features --test redis c22_tokens_grow_through_a_loss_of_all_data",
    },
    Mutant {
        name: "a ghost is let in",
        file: "lock-redis/src/scripts/acquire.lua",
        from: "if redis.call('EXISTS', KEYS[5]) == 1 then",
        to: "if false then",
        test: "-p leasehold --all-features --test redis withdrawals::c19_a_lost_connection_leaves_marks_which_refuse_late_requests",
    },
    Mutant {
        name: "several taken past one that is busy",
        file: "lock-redis/src/scripts/acquire_while_free.lua",
        from: "if not went_well or #answer ~= 2 then break end
  grants[i] = answer",
        to: "if went_well and #answer == 2 then grants[#grants + 1] = answer end",
        test: "-p leasehold --all-features --test redis c39_no_lock_behind_a_busy_one_is_taken",
    },
    Mutant {
        name: "an error amid several loses those before it",
        file: "lock-redis/src/scripts/acquire_while_free.lua",
        from: "pcall(acquire, keys, { owner, ttl_ms, label, '', limit, kind })",
        to: "true, acquire(keys, { owner, ttl_ms, label, '', limit, kind })",
        test: "-p leasehold --all-features --test redis c39_what_is_taken_before_an_error_is_told",
    },
    Mutant {
        name: "every withdrawal leaves a mark",
        file: "lock-redis/src/claims.rs",
        from: "record.carried_by != Carrier::One(link) || record.calls > 0",
        to: "record.carried_by != Carrier::One(link) || record.is_withdrawn",
        test: "-p leasehold --all-features --test redis withdrawals::c19_cancelled_waits_leave_no_marks",
    },
    Mutant {
        name: "another client's claim leaves no mark",
        file: "lock-redis/src/claims.rs",
        from: "let record = record_of(&mut claims, owner, Carrier::Several);
        record.is_withdrawn = true;",
        to: "let record = record_of(&mut claims, owner, Carrier::One(link));
        record.is_withdrawn = true;",
        test: "-p leasehold --all-features --test redis withdrawals::c19_a_late_request_of_a_lease_that_was_handed_on_takes_nothing",
    },
    Mutant {
        name: "a mark by the last connection alone",
        file: "lock-redis/src/claims.rs",
        from: "Self::One(_) | Self::Several => Self::Several",
        to: "Self::One(_) | Self::Several => Self::One(link)",
        test: "-p lock-redis --lib c19_a_withdrawal_over_another_link_leaves_a_mark",
    },
    Mutant {
        name: "a hand-over beside the old value",
        file: "lock-redis/src/scripts/granting.lua",
        from: "redis.call('DEL', lock)
  local first",
        to: "local first",
        test: "-p leasehold --all-features --test redis c27_first_come_first_served",
    },
    Mutant {
        name: "a repeat is a new grant",
        file: "lock-redis/src/scripts/acquire.lua",
        from: "last_at_least(lock, value, me .. ':' .. hold.token .. ':', ttl_ms)
    return granted(hold.token, hold.slots)",
        to: "remove(holds, me)
    add(holds, kind, me, hold.token, ttl_ms, hold.slots, label, now)
    save(holds)
    return granted(hold.token, hold.slots)",
        test: "-p leasehold --all-features --test redis holders::c45_a_repeat_keeps_the_time_of_the_grant",
    },
    Mutant {
        name: "last come, first served",
        file: "lock-redis/src/scripts/granting.lua",
        from: "redis.call('ZRANGE', queue, 0, 0)[1]",
        to: "redis.call('ZRANGE', queue, -1, -1)[1]",
        test: "-p leasehold --all-features --test redis c27_first_come_first_served",
    },
    Mutant {
        name: "subscribe without trying again",
        file: "lock-redis/src/backend.rs",
        from: "attempt = self.try_once(claim, channel.as_deref().unwrap_or(POLLED), &call).await?;",
        to: "let _ = (&mut attempt, channel);",
        test: "-p leasehold --all-features --test redis c28_a_waiter_is_queued_by_its_first_attempt",
    },
    Mutant {
        name: "a swallowing connection is kept",
        file: "lock-redis/src/connection.rs",
        from: "link.replies.request_sent(SUSPECT_AFTER, || self.give_up(link));",
        to: "link.replies.request_sent(SUSPECT_AFTER, || ());",
        test: "-p leasehold --all-features --test redis a_swallowing_connection_is_replaced_while_the_lock_is_held",
    },
    Mutant {
        name: "a failed connection is kept",
        file: "lock-redis/src/connection.rs",
        from: "            Err(error) => {\n                self.give_up(link);",
        to: "Err(error) => {",
        test: "-p leasehold --all-features --test redis faults::c17_a_dead_server_delays_no_call_beyond_its_time_out",
    },
    Mutant {
        name: "an error of a read is an eviction",
        file: "lock-redis/src/scripts/extend.lua",
        from: "return value",
        to: "value = false",
        test: "-p leasehold --all-features --test redis access::c08_a_right_that_is_taken_away_is_no_eviction",
    },
    Mutant {
        name: "the fenced write is not checked",
        file: "lock-redis/src/scripts/fence.lua",
        from: "if seen and tonumber(seen) > tonumber(token) then return { seen } end",
        to: "",
        test: "-p leasehold --all-features --test redis c24_a_stale_holder_can_neither_advance_nor_write",
    },
    Mutant {
        name: "Redis: a free lock is taken though others wait",
        file: "lock-redis/src/scripts/acquire_free.lua",
        from: "redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0",
        to: "redis.call('EXISTS', KEYS[1], KEYS[5]) == 0",
        test: "-p leasehold --all-features --test redis c27_a_newcomer_does_not_pass_the_queue",
    },
    Mutant {
        name: "Redis: a free lock is taken by a withdrawn claim",
        file: "lock-redis/src/scripts/acquire_free.lua",
        from: "redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0",
        to: "redis.call('EXISTS', KEYS[1], KEYS[3]) == 0",
        test: "-p leasehold --all-features --test redis withdrawals::c19_a_lost_connection_leaves_marks_which_refuse_late_requests",
    },
    Mutant {
        name: "Redis: a release passes waiters over",
        file: "lock-redis/src/scripts/release_unwanted.lua",
        from: "and redis.call('EXISTS', KEYS[3]) == 0",
        to: "",
        test: "-p leasehold --all-features --test redis c27_a_release_lets_the_next_one_in",
    },
    Mutant {
        name: "Redis: free locks are taken in company though others wait",
        file: "lock-redis/src/scripts/acquire_together.lua",
        from: "redis.call('EXISTS', lock, queue, withdrawn) == 0",
        to: "redis.call('EXISTS', lock, withdrawn) == 0",
        test: "-p leasehold --all-features --test redis together::c27_newcomers_in_company_do_not_pass_the_queue",
    },
    Mutant {
        name: "Redis: free locks are taken in company by withdrawn claims",
        file: "lock-redis/src/scripts/acquire_together.lua",
        from: "redis.call('EXISTS', lock, queue, withdrawn) == 0",
        to: "redis.call('EXISTS', lock, queue) == 0",
        test: "-p leasehold --all-features --test redis withdrawals::c19_a_lost_connection_leaves_marks_which_refuse_late_requests",
    },
    Mutant {
        name: "Redis: two in company take one lock",
        file: "lock-redis/src/scripts/acquire_together.lua",
        from: "if redis.call('SET', lock, value, 'NX', 'PX', ttl_ms) then answers[i] = token end",
        to: "redis.call('SET', lock, value, 'PX', ttl_ms)
    answers[i] = token",
        test: "-p leasehold --all-features --test redis together::s3_one_lock_that_is_asked_for_many_times_in_company_is_held_once",
    },
    Mutant {
        name: "Redis: a new lock in company goes by a plain counter",
        file: "lock-redis/src/scripts/acquire_together.lua",
        from: "return is_set and now or nil",
        to: "return is_set and '1' or nil",
        test: "-p leasehold --all-features --test redis together::c22_new_locks_in_company_begin_at_the_time",
    },
    Mutant {
        name: "Redis: a release in company passes waiters over",
        file: "lock-redis/src/scripts/release_together.lua",
        from: "(none_is_wanted or redis.call('EXISTS', KEYS[count + i]) == 0)",
        to: "true",
        test: "-p leasehold --all-features --test redis together::c27_a_release_in_company_lets_the_next_one_in",
    },
    Mutant {
        name: "a key of another type is waited for",
        file: "lock-redis/src/error.rs",
        from: "\"NOTALOCK\" => not_a_lock(error.detail().unwrap_or_default()),",
        to: "\"NOTALOCK\" => {
            BackendError::transient(BACKEND, Outcome::NotApplied, \"it is held\", source(error))
        }",
        test: "-p leasehold --all-features --test redis foreign::c49_a_key_of_another_type_is_named_at_once",
    },
    Mutant {
        name: "a key of another type is free",
        file: "lock-redis/src/scripts/acquire.lua",
        from: "if found then return not_a_lock(found) end",
        to: "",
        test: "-p leasehold --all-features --test redis foreign::c49_a_key_of_another_type_is_named_at_once",
    },
    Mutant {
        name: "a key that will never expire is like any other",
        file: "lock-redis/src/reply.rs",
        from: "contention.foreign_without_ttl = contention.ttl_left.is_none();",
        to: "",
        test: "-p leasehold --all-features --test redis foreign::c29_a_key_without_expiry_is_left_alone",
    },
    Mutant {
        name: "a parameter without effect is passed over",
        file: "lock-redis/src/options.rs",
        from: "refuse_unknown_parameters(&self.url)?;",
        to: "let _ = refuse_unknown_parameters(&self.url);",
        test: "-p leasehold --all-features --test redis access::c49_parameters_that_have_no_effect_are_refused",
    },
    Mutant {
        name: "the doctor's lock is outside the prefix",
        file: "lock-redis/src/admin.rs",
        from: "LockRequest::new(format!(\"{prefix}{}\", doctor::PROBE))",
        to: "LockRequest::new(format!(\"{}{}\", prefix.get(..0).unwrap_or_default(), doctor::PROBE))",
        test: "-p leasehold --all-features --test redis access::c49_rights_on_the_keys_of_a_prefix_are_enough_for_it",
    },
    Mutant {
        name: "range not reserved",
        file: "lock-redis/src/scripts/reserve.lua",
        from: "redis.call('PEXPIRE', fence, COUNTER_MS)",
        to: "redis.call('INCRBY', fence, -tokens)",
        test: "-p leasehold --all-features --test redis c22_reserved_tokens_are_nobody_elses",
    },
    Mutant {
        name: "a range that goes past the clock",
        file: "lock-redis/src/scripts/reserve.lua",
        from: "last <= server_time() and",
        to: "",
        test: "-p leasehold --all-features --test redis tokens::c22_no_range_goes_past_the_clock",
    },
    Mutant {
        name: "a reservation that never yields",
        file: "lock-redis/src/scripts/reserve.lua",
        from: "(yields == '0' or redis.call('EXISTS', queue) == 0)",
        to: "true",
        test: "-p leasehold --all-features --test redis c26_a_reservation_yields_to_those_that_wait",
    },
    Mutant {
        name: "Redis: a reader past a waiting writer",
        file: "lock-redis/src/scripts/acquire.lua",
        from: "local slots = is_next and fits(holds, kind)",
        to: "local slots = fits(holds, kind)",
        test: "-p leasehold --all-features --test redis c34_nobody_passes_those_who_wait",
    },
    Mutant {
        name: "Redis: a slot given twice",
        file: "lock-redis/src/scripts/granting.lua",
        from: "taken[tonumber(number)] = true",
        to: "",
        test: "-p leasehold --all-features --test redis c36_a_permit_is_a_slot",
    },
    Mutant {
        name: "Redis: a permit that is not freed at its expiry",
        file: "lock-redis/src/scripts/granting.lua",
        from: "if expires * 1000 > now then",
        to: "if true then",
        test: "-p leasehold --all-features --test redis c38_each_holder_stands_by_itself",
    },
    Mutant {
        name: "Redis: a hold that is over is renewed beside others",
        file: "lock-redis/src/scripts/holds.lua",
        from: "if not expires or expires * 1000 <= now then",
        to: "if not expires then",
        test: "-p leasehold --all-features --test redis c38_each_holder_stands_by_itself",
    },
    Mutant {
        name: "Redis: the key lasts as long as the newest hold",
        file: "lock-redis/src/scripts/granting.lua",
        from: "last = math.max(last, hold.expires)",
        to: "last = hold.expires",
        test: "-p leasehold --all-features --test redis c38_each_holder_stands_by_itself",
    },
    Mutant {
        name: "Redis: another number of permits waits",
        file: "lock-redis/src/scripts/acquire.lua",
        from: "local permits = conflict(holds, kind)",
        to: "local permits = nil",
        test: "-p leasehold --all-features --test redis c33_another_number_of_permits_is_a_conflict",
    },
    Mutant {
        name: "Redis: a free lock is shared as an exclusive one",
        file: "lock-redis/src/backend.rs",
        from: "if mark.is_some() {",
        to: "if kind.slots() > 0 {",
        test: "-p leasehold --all-features --test redis c33_a_hold_is_granted_if_it_fits",
    },
    Mutant {
        name: "Redis: a writer that gives up lets nobody in",
        file: "lock-redis/src/scripts/withdraw.lua",
        from: "if left + remove(holds, owner) > 0 then",
        to: "if remove(holds, owner) > 0 then",
        test: "-p leasehold --all-features --test redis kinds::c34_a_writer_that_gives_up_lets_readers_in",
    },
    Mutant {
        name: "Redis: a server out of memory ends no shared hold",
        file: "lock-redis/src/scripts/granting.lua",
        from: "redis.call('DEL', lock)
  local first = holds[1]
  if not first then return end",
        to: "local first = holds[1]
  if not first then return redis.call('DEL', lock) end",
        test: "-p leasehold --all-features --test redis kinds::c38_a_server_out_of_memory_keeps_and_ends_holds",
    },
    Mutant {
        name: "occurrence recorded after a loss, on Redis",
        file: "lock-redis/src/scripts/record.lua",
        from: "if not held or string.sub(held, 1, #hold) ~= hold then return 0 end",
        to: "",
        test: "-p leasehold --all-features --test redis c42_a_holder_that_lost_the_lock_cannot_record",
    },
    Mutant {
        name: "a delayed release that leaves the hold to its owner, on Redis",
        file: "lock-redis/src/scripts/release_after.lua",
        from: "redis.call('SET', KEYS[1], ARGV[2] .. string.sub(held, 33), 'PX', ARGV[3])",
        to: "redis.call('PEXPIRE', KEYS[1], ARGV[3])",
        test: "-p leasehold --all-features --test redis c41_a_hold_whose_release_is_delayed_is_nobodys",
    },
    Mutant {
        name: "Redis: a pushed permit does not know its slots",
        file: "lock-redis/src/scripts/granting.lua",
        from: "if slots ~= '' then message = message .. ':' .. slots end",
        to: "",
        test: "-p leasehold --all-features --test redis c34_a_release_lets_in_all_that_fit",
    },
];
