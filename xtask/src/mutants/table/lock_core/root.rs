//! The mutants of what stands at the root: the client, the guards, the fence, the memory backend.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "fence lets stale tokens pass",
        file: "lock-core/src/fence.rs",
        from: "Ok(seen) if seen > token =>",
        to: "Ok(seen) if seen < token =>",
        test: "-p lock-core --lib c24_a_fence_accepts_equal_and_greater_tokens_only",
    },
    Mutant {
        name: "a lease that is handed on forgets what is unresolved",
        file: "lock-core/src/guard.rs",
        from: "self.claim.take().is_some_and(OwnedClaim::hand_on)",
        to: "self.claim.take().is_some_and(OwnedClaim::hand_on) && false",
        test: "-p lock-core --test memory c19_a_lease_that_is_handed_on_stays_unresolved",
    },
    Mutant {
        name: "an extended hold is taken back for its first TTL",
        file: "lock-core/src/guard.rs",
        from: "claim.keep_as(&self.hold.lease());",
        to: "",
        test: "-p lock-core --test waits c19_an_extended_hold_is_taken_back_for_as_long_as_it_lasts",
    },
    Mutant {
        name: "an eviction leaves the fence where it was",
        file: "lock-core/src/client.rs",
        from: "fence.advance(token.successor()).await",
        to: "fence.advance(token).await",
        test: "-p lock-core --test memory c46_an_eviction_takes_the_fence_with_it",
    },
    Mutant {
        name: "a release that outlasts its lease is a loss",
        file: "lock-core/src/guard.rs",
        from: "Ok(Release::NotHeld) if !shared.has_expired(&hold.lease()) => {",
        to: "Ok(Release::NotHeld) => {",
        test: "-p lock-core --test endings c47_a_release_that_outlasts_its_lease_is_no_loss",
    },
    Mutant {
        name: "a silent server makes a failure of finished work",
        file: "lock-core/src/client.rs",
        from: "hold: guard.release().await }",
        to: "hold: guard.release_confirmed().await.map(drop) }",
        test: "-p leasehold --features redis --test first_hour c47_a_server_that_is_away_at_the_end",
    },
    Mutant {
        name: "not held is an end like any other",
        file: "lock-core/src/guard.rs",
        from: "Err(hold.lost_error(LostReason::Evicted))",
        to: "Ok(())",
        test: "-p lock-core --test memory c47_a_release_tells_of_a_loss",
    },
    Mutant {
        name: "pass after loss",
        file: "lock-core/src/guard.rs",
        from: "if lost_before.is_none() && self.pass_on() {",
        to: "if self.pass_on() {",
        test: "-p lock-core --all-features --test passing c10_a_lost_hold_is_not_passed_on",
    },
    Mutant {
        name: "several taken past one that is busy",
        file: "lock-core/src/memory.rs",
        from: "let granted = attempts.map_while(|attempt| match attempt {",
        to: "let granted = attempts.filter_map(|attempt| match attempt {",
        test: "-p lock-core --test memory c39_no_lock_behind_a_busy_one_is_taken",
    },
    Mutant {
        name: "the first guard that goes gives it back",
        file: "lock-core/src/guard.rs",
        from: "        self.claim.is_some()
    }",
        to: "        true
    }",
        test: "-p lock-core --test reentrance c43_the_last_guard_gives_the_lock_back",
    },
    Mutant {
        name: "what is lost is shared on",
        file: "lock-core/src/reentrance.rs",
        from: ".filter(LockGuard::is_held)",
        to: "",
        test: "-p lock-core --test memory c43_what_is_lost_is_acquired_anew",
    },
    Mutant {
        name: "a hold of others detached",
        file: "lock-core/src/guard.rs",
        from: "self.error_unless_last()?;
        let _ =",
        to: "let _ =",
        test: "-p lock-core --test reentrance c43_a_hold_that_is_shared_is_neither_detached_nor_ended",
    },
    Mutant {
        name: "a check refuses the newest token",
        file: "lock-core/src/fence.rs",
        from: "match self.seen().await? {
            Some(seen) if seen > token",
        to: "match self.seen().await? {
            Some(seen) if seen >= token",
        test: "-p lock-core --lib c35_a_check_remembers_nothing",
    },
    Mutant {
        name: "a run is recorded under a hold that others hold beside",
        file: "lock-core/src/guard.rs",
        from: "if lease.kind != Kind::Exclusive {",
        to: "if lease.asked.as_duration().is_zero() {",
        test: "-p lock-core --test once c42_a_hold_that_is_not_exclusive_is_not_recorded",
    },
    Mutant {
        name: "an eviction is told to nobody who watches",
        file: "lock-core/src/memory.rs",
        from: "store.watchers.tell(name);
        store.forget_if_idle(name);
        Ok(ended)",
        to: "store.forget_if_idle(name);
        Ok(ended)",
        test: "-p lock-core --test watching c44_a_change_that_is_told_is_seen_at_once",
    },
    Mutant {
        name: "a reader passes a waiting writer",
        file: "lock-core/src/memory.rs",
        from: "Admission::Fits(slots) if lock.queue.is_empty() => {",
        to: "Admission::Fits(slots) if lock.queue.len() < usize::MAX => {",
        test: "-p lock-core --lib c34_every_history_comes_to_what_the_specification_says",
    },
    Mutant {
        name: "those behind a waiter that left wait on",
        file: "lock-core/src/memory.rs",
        from: "is_some_and(|lock| lock.holds.end(owner));
        self.hand_over(&mut store, name, now)?;",
        to: "is_some_and(|lock| lock.holds.end(owner));
        if was_held {
            self.hand_over(&mut store, name, now)?;
        }",
        test: "-p lock-core --lib c34_every_history_comes_to_what_the_specification_says",
    },
    Mutant {
        name: "occurrence recorded after a loss",
        file: "lock-core/src/memory.rs",
        from: "if !lock.is_some_and(|lock| lock.holds.has(record.owner, record.token)) {",
        to: "if lock.is_some_and(|lock| lock.holds.as_slice().len() > 1) {",
        test: "-p lock-core --test memory c42_a_holder_that_lost_the_lock_cannot_record",
    },
    Mutant {
        name: "work that outlasts its deadline in one step was held to the end",
        file: "lock-core/src/guard.rs",
        from: "self.error_if_lost().map(|()| value)",
        to: "Ok(value)",
        test: "-p lock-core --test overrun c13_a_run_that_outlasts_its_deadline_in_one_step_is_a_loss",
    },
];
