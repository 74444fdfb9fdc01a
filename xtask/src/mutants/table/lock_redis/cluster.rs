//! The mutants of Redis Cluster and Sentinel.

use crate::mutants::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "Cluster: a slot that moved is not followed",
        file: "lock-redis/src/cluster/mod.rs",
        from: "\"MOVED\" | \"CLUSTERDOWN\" => {",
        to: "\"CLUSTERDOWN\" => {",
        test: "-p leasehold --all-features --test redis_topologies cluster::moves::c18_one_attempt_finds_a_slot_that_moved",
    },
    Mutant {
        name: "tokens counted on from a replica that was behind",
        file: "lock-redis/src/topology.rs",
        from: "Servers::Several",
        to: "Servers::One",
        test: "-p leasehold --all-features --test redis_topologies failover::sentinel::c22_tokens_grow_past_what_a_failover_forgot",
    },
    Mutant {
        name: "tokens counted on from a replica that took over behind the address",
        file: "lock-redis/src/topology.rs",
        from: "fn servers(&self) -> Servers {
        self.servers",
        to: "fn servers(&self) -> Servers {
        Servers::One",
        test: "-p leasehold --all-features --test redis tokens::c22_tokens_grow_when_a_replica_takes_over_behind_the_address",
    },
    Mutant {
        name: "Sentinel: nobody is asked while the former primary answers",
        file: "lock-redis/src/sentinel.rs",
        from: "let _ = timeout(LOOK_INTERVAL, self.doubt.notified()).await;",
        to: "let _ = timeout(LOOK_INTERVAL * 60, self.doubt.notified()).await;",
        test: "-p leasehold --all-features --test redis_topologies sentinel::planned::p2_a_primary_that_was_replaced_grants_nothing",
    },
    Mutant {
        name: "Sentinel: any answer rules",
        file: "lock-redis/src/sentinel/told.rs",
        from: "newest.max_by_key(|named| (named.epoch, is_known(named)))",
        to: "newest.max_by_key(is_known)",
        test: "-p lock-redis --all-features --lib p2_the_newest_answer_rules",
    },
    Mutant {
        name: "Cluster: a hand-over in a slot that moves",
        file: "lock-redis/src/cluster/mod.rs",
        from: "        Servers::Spread
",
        to: "        Servers::Several
",
        test: "-p leasehold --all-features --test redis_topologies cluster::moves::c27_no_hand_over_is_left_half_done",
    },
];
