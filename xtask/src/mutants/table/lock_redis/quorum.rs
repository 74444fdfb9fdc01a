//! The mutants of several servers of Redis that have nothing in common.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "quorum: a minority grants",
        file: "lock-redis/src/quorum/majority.rs",
        from: "servers / 2 + 1",
        to: "servers / 2",
        test: "-p leasehold --all-features --test redis_quorum minority::p2_no_lock_is_granted_by_a_majority_of_those_that_answer",
    },
    Mutant {
        name: "quorum: a majority of those that answer grants",
        file: "lock-redis/src/quorum/votes.rs",
        from: "    // A majority of all voters, never of those that answer.
    let majority = majority(answers.len());",
        to: "    let majority = majority(said(answers).count());",
        test: "-p leasehold --all-features --test redis_quorum minority::p2_no_lock_is_granted_by_a_majority_of_those_that_answer",
    },
    Mutant {
        name: "quorum: the token of an extension is not compared",
        file: "lock-redis/src/quorum/scripts/extend.lua",
        from: "string.sub(value, 1, #hold) == hold",
        to: "string.sub(value, 1, 33) == string.sub(hold, 1, 33)",
        test: "-p leasehold --all-features --test redis_quorum three::c10_a_later_grant_to_the_same_owner_is_another_hold",
    },
    Mutant {
        name: "quorum: votes of an earlier attempt count",
        file: "lock-redis/src/quorum/scripts/vote.lua",
        from: "if own == ballot then",
        to: "if own then
    ballot = own",
        test: "-p leasehold --all-features --test redis_quorum repeats::s3_votes_of_an_earlier_attempt_do_not_count_for_the_next",
    },
    Mutant {
        name: "quorum: an answer counts that was found after a pause",
        file: "lock-redis/src/quorum/voter.rs",
        from: "SystemClock.now().since(asked) <= ANSWER_COUNTS_FOR",
        to: "SystemClock.now().since(asked) <= ANSWER_COUNTS_FOR * 1000",
        test: "-p lock-redis --all-features --lib p2_an_answer_that_a_client_finds_after_a_pause_does_not_count",
    },
    Mutant {
        name: "quorum: a failed attempt is not given back",
        file: "lock-redis/src/quorum/backend.rs",
        from: "let mut round = self.give_back(&granted, what);",
        to: "let mut round = self.give_back(&[], what);",
        test: "-p leasehold --all-features --test redis_quorum minority::p2_no_lock_is_granted_by_a_majority_of_those_that_answer",
    },
    Mutant {
        name: "quorum: a server that restarted votes at once",
        file: "lock-redis/src/quorum/scripts/vote.lua",
        from: "if redis.call('EXISTS', out) == 1 then",
        to: "if false then",
        test: "-p leasehold --all-features --test redis_quorum membership::p2_a_server_that_lost_its_data_lets_nobody_in_beside_a_holder",
    },
    Mutant {
        name: "quorum: a smaller ballot is granted",
        file: "lock-redis/src/quorum/scripts/vote.lua",
        from: "if tonumber(ballot) <= counter then",
        to: "if false then",
        test: "-p leasehold --all-features --test redis_quorum membership::c22_a_server_that_lost_its_counters_grants_greater_tokens_only",
    },
    Mutant {
        name: "quorum: the floor of a server that lost its counters is not looked at",
        file: "lock-redis/src/quorum/scripts/vote.lua",
        from: "math.max(number_at(fence), number_at(floor))",
        to: "number_at(fence)",
        test: "-p leasehold --all-features --test redis_quorum membership::c22_a_server_that_lost_its_counters_grants_greater_tokens_only",
    },
    Mutant {
        name: "quorum: what a stopped server was not sent is forgotten",
        file: "lock-redis/src/quorum/voter.rs",
        from: "owed.push_back(what);",
        to: "drop(what);",
        test: "-p leasehold --all-features --test redis_quorum minority::c19_a_server_that_was_stopped_keeps_no_hold_that_is_over",
    },
    Mutant {
        name: "quorum: nobody is woken",
        file: "lock-redis/src/quorum/scripts/voter.lua",
        from: "if owner and redis.call('PUBLISH', channel, owner) > 0 then",
        to: "if false then",
        test: "-p leasehold --all-features --test redis_quorum three::c27_a_release_lets_the_next_one_in",
    },
    Mutant {
        name: "quorum: one server lets a token pass the fence",
        file: "lock-redis/src/quorum/fence.rs",
        from: ".count() >= majority(answers.len()) {",
        to: ".count() >= 1 {",
        test: "-p leasehold --all-features --test redis_quorum minority::c24_a_fence_on_a_majority_refuses_what_is_stale",
    },
    Mutant {
        name: "quorum: a hold that is given back to a server has no label",
        file: "lock-redis/src/quorum/restoring.rs",
        from: ".label(holder.label.as_str())",
        to: ".label(\"\")",
        test: "-p leasehold --all-features --test redis_quorum minority::c12_a_hold_comes_back_to_a_server_that_lacks_it",
    },
    Mutant {
        name: "quorum: servers that do not answer hide a holder",
        file: "lock-redis/src/quorum/inspection.rs",
        from: "if count(strongest) + unknown < majority(answers.len()) {",
        to: "if count(strongest) < majority(answers.len() + unknown) {",
        test: "-p leasehold --all-features --test redis_quorum minority::c19_a_server_that_was_stopped_keeps_no_hold_that_is_over",
    },
    Mutant {
        name: "quorum: candidates that share the voters which are left wait for each other",
        file: "lock-redis/src/quorum/votes.rs",
        from: "let absent = if own > 0 { 0 } else",
        to: "let absent = if false { 0 } else",
        test: "-p lock-redis --all-features --lib c28_who_has_votes_does_not_wait",
    },
];
