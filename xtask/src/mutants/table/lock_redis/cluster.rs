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
        name: "Sentinel: nobody is asked for another primary",
        file: "lock-redis/src/sentinel.rs",
        from: "if primary.connection.is_in_doubt() {",
        to: "if false {",
        test: "-p leasehold --all-features --test redis_topologies failover::sentinel::a_hold_and_its_waiter_outlive_their_primary",
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
