//! The mutants of the connection to one server of Redis, and of what is asked over it.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
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
        name: "subscribe without trying again",
        file: "lock-redis/src/backend.rs",
        from: "(attempt, _) = self.try_once(claim, waiter, POLLED, &call).await?;",
        to: "let _ = (&mut attempt, POLLED);",
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
        name: "a client listens where it asked before",
        file: "lock-redis/src/push.rs",
        from: "_ = connection.links.changed() => return None,",
        to: "",
        test: "-p leasehold --all-features --test redis failover::c28_who_waits_listens_at_the_new_primary",
    },
    Mutant {
        name: "a failed connection is kept",
        file: "lock-redis/src/connection.rs",
        from: "if let Err(error) = link.opened().await {\n            self.give_up(link);",
        to: "if let Err(error) = link.opened().await {",
        test: "-p leasehold --all-features --test redis faults::c17_a_dead_server_delays_no_call_beyond_its_time_out",
    },
    Mutant {
        name: "answers of a batch are kept",
        file: "lock-redis/src/delivery.rs",
        from: "let is_first = untold.is_empty();",
        to: "let is_first = false;",
        test: "-p lock-redis --all-features --lib delivery::",
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
        name: "Redis: a free lock is shared as an exclusive one",
        file: "lock-redis/src/message.rs",
        from: "if self.kind.is_some() { &ACQUIRE_BESIDE }",
        to: "if false { &ACQUIRE_BESIDE }",
        test: "-p leasehold --all-features --test redis c33_a_hold_is_granted_if_it_fits",
    },
    Mutant {
        name: "the driver tells its name by itself",
        file: "lock-redis/src/connection.rs",
        from: ".clone().set_skip_set_lib_name();",
        to: ".clone();",
        test: "-p leasehold --features redis --test redis the_server_refuses_nothing_of_what_is_sent",
    },
    Mutant {
        name: "a change on Redis is told to nobody who watches",
        file: "lock-redis/src/key_events.rs",
        from: "lock.told.send_replace(());",
        to: "let _ = lock;",
        test: "-p leasehold --all-features --test redis watching::c44_what_is_told_is_shown_between_two_polls",
    },
    Mutant {
        name: "what a watch on Redis did not hear is not looked for",
        file: "lock-redis/src/key_events.rs",
        from: "Ok(()) => return Some(News::Change),",
        to: "Ok(()) => {}",
        test: "-p leasehold --all-features --test redis watching::c44_a_lost_connection_costs_no_change",
    },
    Mutant {
        name: "each renewal on Redis is told to those who watch",
        file: "lock-redis/src/key_events.rs",
        from: "if matches!(event, b\"expire\" | b\"setrange\") {",
        to: "if false {",
        test: "-p leasehold --all-features --test redis watching::c44_a_renewal_is_not_told",
    },
    Mutant {
        name: "a subscription on Redis outlives its watches",
        file: "lock-redis/src/key_events.rs",
        from: "let _ = connection.unsubscribe(channels).now_or_never();",
        to: "let _ = (&mut connection, channels);",
        test: "-p leasehold --all-features --test redis watching::r1_watches_share_one_connection_and_leave_no_subscription",
    },
    Mutant {
        name: "the queue on Redis is not watched",
        file: "lock-redis/src/keys.rs",
        from: "Some(queue_of.unwrap_or(key))",
        to: "Some(key).filter(|_| queue_of.is_none())",
        test: "-p leasehold --all-features --test redis watching::c44_all_that_changes_a_lock_is_told",
    },
    Mutant {
        name: "Cluster: a slot that moves is not asked for",
        file: "lock-redis/src/batch.rs",
        from: "if part.is_asking() {",
        to: "if false {",
        test: "-p leasehold --all-features --test redis_topologies cluster::moves::c12_holds_are_renewed_while_their_slot_moves",
    },
    Mutant {
        name: "Cluster: a client listens at one server alone",
        file: "lock-redis/src/backend.rs",
        from: "waiter.and_then(|waiter| node.push.register(claim.owner, waiter));",
        to: "waiter.and_then(|waiter| {
                let _ = node;
                self.server.any_node().ok()?.push.register(claim.owner, waiter)
            });",
        test: "-p leasehold --all-features --test redis_topologies cluster::requests::c27_a_lock_of_each_primary_is_handed_over_by_push",
    },
    Mutant {
        name: "Cluster: holds of several servers wait for each other",
        file: "lock-redis/src/backend.rs",
        from: "self.server.number_of(&Keys::new(name).lock())",
        to: "self.server.number_of(&Keys::new(name).lock()) * 0",
        test: "-p leasehold --all-features --test redis_topologies cluster::requests::c12_a_silent_primary_costs_no_hold_of_another",
    },
    Mutant {
        name: "Cluster: a request for each hold",
        file: "lock-redis/src/renewals.rs",
        from: "(renewals, self.server.is_spread())",
        to: "(renewals, false)",
        test: "-p leasehold --all-features --test redis_topologies cluster::requests::c12_ten_thousand_holds_are_renewed_by_few_requests",
    },
    Mutant {
        name: "what company left is sent though its caller has left",
        file: "lock-redis/src/link.rs",
        from: "left.retain(Request::is_wanted);",
        to: "left.retain(|_| true);",
        test: "-p lock-redis --lib c19_what_was_left_goes_no_more_once_its_caller_has_left",
    },
    Mutant {
        name: "bytes are left to a caller that nobody polls",
        file: "lock-redis/src/socket.rs",
        from: "if side == Side::Task {",
        to: "if false {",
        test: "-p leasehold --all-features --test redis together::c17_a_caller_that_nobody_polls_holds_up_no_other",
    },
    Mutant {
        name: "a caller is not told that the task rests",
        file: "lock-redis/src/socket.rs",
        from: "        self.caller.0.wake();\n",
        to: "",
        test: "-p lock-redis --all-features --lib socket::",
    },
    Mutant {
        name: "who moves bytes is woken no more",
        file: "lock-redis/src/socket.rs",
        from: "self.mover.0.register(waker);",
        to: "",
        test: "-p lock-redis --all-features --lib socket::",
    },
    Mutant {
        name: "a reply that another has read wakes nobody",
        file: "lock-redis/src/socket.rs",
        from: "self.relay(side).0.register(waker);",
        to: "",
        test: "-p lock-redis --all-features --lib socket::",
    },
];
