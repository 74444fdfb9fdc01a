//! Controls: the checker finds faults that are made on purpose.

use std::time::Duration;

use lock_testkit::chaos::{Plan, run};

use crate::stores::{Memory, Unfenced};

/// Number of tries of a control: a fault strikes at random, and half of the runs see its effect.
const TRIES: u64 = 20;

/// S4: without a fence, a holder that is paused past its TTL overwrites later writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_paused_holder_without_a_fence_is_found() {
    for seed in 1..=TRIES {
        let plan =
            Plan { fault: Some("worker-paused".to_owned()), is_reckless: true, ..plan(seed) };
        let report = run::<Unfenced>(&plan).await;
        if report.violations("S4") > 0 && report.violations("S1") > 0 {
            return;
        }
    }
    panic!("the harness is blind: no update was lost in {TRIES} runs without a fence");
}

/// S3: a lock that is freed without its holder is seen to have two holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_locks_that_are_freed_behind_the_holders_back_are_found() {
    for seed in 1..=TRIES {
        let plan = Plan { fault: Some("evicted".to_owned()), excuses_nothing: true, ..plan(seed) };
        let report = run::<Memory>(&plan).await;
        assert_eq!(report.violations("S4") + report.violations("S2"), 0, "{report}");
        if report.violations("S3") > 0 {
            return;
        }
    }
    panic!("the harness is blind: {TRIES} runs of evictions made no two holders");
}

fn plan(seed: u64) -> Plan {
    Plan::new(seed, Duration::from_secs(7))
}
