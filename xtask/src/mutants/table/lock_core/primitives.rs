//! The mutants of the primitives.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "names taken in the given order",
        file: "lock-core/src/primitives/several.rs",
        from: "names.iter().map(|name| self.each",
        to: "let given: Result<Vec<LockName>, _> = self.names.iter().map(LockName::new).collect();
        given?.iter().map(|name| self.each",
        test: "-p lock-core --test memory c39_names_are_taken_in_the_order_of_their_bytes",
    },
    Mutant {
        name: "not all given back on a failure",
        file: "lock-core/src/primitives/several.rs",
        from: "let granted = granted.map_err(|error| total.told(error))?;",
        to: "if granted.is_err() {
                guards.drain(..).for_each(std::mem::forget);
            }
            let granted = granted.map_err(|error| total.told(error))?;",
        test: "-p lock-core --test several c39_a_failure_anywhere_leaves_no_lock",
    },
    Mutant {
        name: "a wait for each of several locks",
        file: "lock-core/src/primitives/several.rs",
        from: "span.saturating_sub(self.started.elapsed()).max(Duration::from_nanos(1)),",
        to: "span",
        test: "-p lock-core --test several c39_one_wait_bounds_all_locks",
    },
    Mutant {
        name: "a loss amid the acquisition of several goes unnoticed",
        file: "lock-core/src/primitives/several.rs",
        from: "loss = first_loss(&guards) =>",
        to: "loss = first_loss(&[]) =>",
        test: "-p lock-core --test several c39_a_loss_amid_the_acquisition_ends_it",
    },
    Mutant {
        name: "a smaller term is shown to an observer",
        file: "lock-core/src/primitives/observer.rs",
        from: "if term.is_some() && term < self.greatest {",
        to: "if term.is_none() && term > self.greatest {",
        test: "-p lock-core --test watching c40_an_answer_that_is_overtaken_is_not_shown",
    },
    Mutant {
        name: "a term that ended is forgotten by an observer",
        file: "lock-core/src/primitives/observer.rs",
        from: "self.greatest = self.greatest.max(term);",
        to: "self.greatest = term;",
        test: "-p lock-core --lib c40_no_smaller_term_is_shown_and_nothing_twice",
    },
    Mutant {
        name: "a change is forgotten when the call is dropped",
        file: "lock-core/src/primitives/looks.rs",
        from: "() = sleep_until(self.due) => return,",
        to: "() = sleep_until(self.due) => {
                    self.due = Instant::now() + self.poll;
                    return;
                }",
        test: "-p lock-core --test watching c44_a_call_that_is_dropped_loses_no_change",
    },
    Mutant {
        name: "a watch that relies on what it is told",
        file: "lock-core/src/primitives/looks.rs",
        from: "(self.due, self.earliest) = (now + self.poll, now + SHORTEST_PAUSE);",
        to: "(self.due, self.earliest) = (now + self.poll * 1000, now + SHORTEST_PAUSE);",
        test: "-p lock-core --test watching c44_a_change_that_is_not_told_costs_one_poll",
    },
    Mutant {
        name: "a busy lock is looked at without a pause",
        file: "lock-core/src/primitives/looks.rs",
        from: "const SHORTEST_PAUSE: Duration = Duration::from_millis(10);",
        to: "const SHORTEST_PAUSE: Duration = Duration::ZERO;",
        test: "-p lock-core --test watching c44_a_busy_lock_is_looked_at_a_hundred_times_a_second",
    },
    Mutant {
        name: "an outage ends a watch",
        file: "lock-core/src/primitives/looks.rs",
        from: "Err(error) if error.is_transient() => self.outage.tell(&error),",
        to: "Err(error) if error.is_lost() => self.outage.tell(&error),",
        test: "-p lock-core --test watching c44_an_outage_is_waited_out_and_told_once",
    },
    Mutant {
        name: "an outage is told again and again",
        file: "lock-core/src/primitives/looks.rs",
        from: "std::mem::replace(&mut self.is_told, true)",
        to: "std::mem::replace(&mut self.is_told, false)",
        test: "-p lock-core --test watching c44_an_outage_is_waited_out_and_told_once",
    },
    Mutant {
        name: "a crash lets others in after the TTL, and not after at_least",
        file: "lock-core/src/guard.rs",
        from: "if span > ttl {",
        to: "if span > Ttl::MAX {",
        test: "-p lock-core --test once c41_a_crash_keeps_others_out_for_the_longer_of_span_and_ttl",
    },
    Mutant {
        name: "a run that failed is recorded",
        file: "lock-core/src/primitives/once.rs",
        from: "(Ok(_), Some(occurrence)) => guard.record(occurrence, remember).await,",
        to: "(_, Some(occurrence)) => guard.record(occurrence, remember).await,",
        test: "-p lock-core --test memory c42_a_run_that_ended_well_is_done",
    },
    Mutant {
        name: "no second look for a record once the lock is held",
        file: "lock-core/src/primitives/once.rs",
        from: "let granted = Instant::now();
        // C42: the one that had the lock until now may have recorded it since we looked.
        if let Some(token) = run.done().await? {",
        to: "let granted = Instant::now();
        if let Some(token) = run.done().await?.filter(|_| false) {",
        test: "-p lock-core --test once c42_a_run_that_was_recorded_in_between_is_done",
    },
    Mutant {
        name: "a grant that nobody learned of costs at_least",
        file: "lock-core/src/primitives/once.rs",
        from: "Ok(Self { client, request, name, occurrence, at_least })",
        to: "let request = request.ttl(at_least.unwrap_or(claim.ttl).max(claim.ttl).as_duration());
        Ok(Self { client, request, name, occurrence, at_least })",
        test: "-p lock-core --test once c41_a_grant_that_nobody_learned_of_costs_one_ttl",
    },
    Mutant {
        name: "several held past a loss in one step",
        file: "lock-core/src/primitives/multi_guard.rs",
        from: "check().map(|()| value)",
        to: "Ok(value)",
        test: "-p lock-core --test overrun c13_a_run_that_outlasts_its_deadline_in_one_step_is_a_loss",
    },
];
