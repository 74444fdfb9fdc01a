//! Tests of the suite: it refuses each broken backend, by the case that is named for it, and accepts a sound and
//! a slow backend.

use lock_testkit::Expect;
use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lock_core::backend::async_trait;
use lock_core::{DistributedLock, LockAdmin, LockName, Whom};
use lock_testkit::broken::{BREAKS, Break, unbroken};
use lock_testkit::conformance::{CASES, Harness};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::runtime::Builder;

/// Harness whose connections all lead to this backend.
struct To(Arc<dyn DistributedLock>);

#[async_trait]
impl Harness for To {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        self.0.clone()
    }

    async fn evict(&self, name: &LockName) {
        self.0.expect_admin().evict(name, &Whom::All).await.expect("an answer");
    }

    /// Shorter than usual, since a broken backend never does the missing act.
    fn limit(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// A store with this delay in each call, and the time that its tests get.
struct Slow {
    backend: Faulty,
    request_timeout: Duration,
}

impl Slow {
    fn with(request_timeout: Duration) -> Self {
        let backend = Faulty::new(unbroken());
        for operation in [
            Operation::Acquire,
            Operation::Extend,
            Operation::Release,
            Operation::Withdraw,
            Operation::Inspect,
        ] {
            backend.always(operation, Fault::Late(Duration::from_millis(180)));
        }
        Self { backend, request_timeout }
    }
}

#[async_trait]
impl Harness for Slow {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.backend.clone())
    }

    async fn evict(&self, name: &LockName) {
        self.backend.evict(name, &Whom::All).await.expect("an answer");
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn request_timeout(&self) -> Duration {
        self.request_timeout
    }
}

/// Cases that a slow store would fail if they allowed too little time.
const TIMED: [&str; 8] = [
    "c12_a_slow_grant_is_renewed_in_time",
    "c14_a_bounded_wait_times_out",
    "c16_an_acquire_whose_reply_was_lost_is_granted",
    "c16_a_release_whose_reply_was_lost_is_released",
    "c20_shutdown_waits_for_no_acquisition_that_nobody_polls",
    "c27_a_release_lets_the_next_one_in",
    "c28_a_dead_holder_costs_no_more_than_its_ttl",
    "c40_a_candidate_outlasts_an_outage",
];

#[test]
fn a_store_that_is_slow_is_given_the_time_that_it_needs() {
    let enough = || Slow::with(Duration::from_secs(4));
    thread::scope(|scope| {
        for case in TIMED {
            scope.spawn(move || assert_eq!(verdict(case, enough()), Ok(()), "{case}"));
        }
    });
    // A try has half of it, which is less than the store's delay.
    let too_little = || Slow::with(Duration::from_millis(300));
    let is_refused = thread::scope(|scope| {
        let verdicts = TIMED.map(|case| scope.spawn(move || verdict(case, too_little()).is_err()));
        verdicts.into_iter().any(|refused| refused.join().is_ok_and(|refused| refused))
    });
    assert!(is_refused, "the store is slow enough to tell them apart");
}

/// Returns the verdict of a case of the suite on a backend.
fn verdict(case: &str, harness: impl Harness + 'static) -> Result<(), String> {
    let found = CASES.iter().find(|known| known.name() == case);
    let case = *found.unwrap_or_else(|| panic!("no such case: {case}"));
    let run = move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(case.run(&harness));
    };
    thread::spawn(run).join().map_err(|panic| text(&*panic))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|said| said.to_string())).unwrap_or_default()
}

/// Returns a complaint unless the suite refuses a broken backend as expected.
fn complaint(broken: &Break) -> Option<String> {
    let Break { name, case, expected, .. } = broken;
    match verdict(case, To((broken.make)())) {
        Ok(()) => Some(format!("{name:?} passes {case}")),
        Err(said) if said.contains(expected) => None,
        Err(said) => Some(format!("{name:?} fails {case} otherwise than by {expected:?}: {said}")),
    }
}

/// Asserts that no item has a complaint. Most cases wait for most of their time, so several run at once.
fn assert_no_complaint<T: Send>(
    items: impl IntoIterator<Item = T>,
    complaint: impl Fn(T) -> Option<String> + Sync,
) {
    let items: Vec<_> = items.into_iter().collect();
    let (items, complaints) = (Mutex::new(items), Mutex::new(Vec::new()));
    let next = || items.lock().expect("no panic").pop();
    let work = || {
        while let Some(item) = next() {
            let found = complaint(item);
            complaints.lock().expect("no panic").extend(found);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let complaints = complaints.into_inner().expect("no panic");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_suite_refuses_each_broken_backend_and_says_what_was_expected() {
    assert_no_complaint(BREAKS, complaint);
}

/// Else a broken backend would be refused for its wrapper.
#[test]
fn the_suite_accepts_the_sound_backend_in_the_same_wrapper() {
    let cases: HashSet<_> = BREAKS.iter().map(|broken| broken.case).collect();
    assert_no_complaint(cases, |case| {
        verdict(case, To(unbroken())).err().map(|said| format!("{case}: {said}"))
    });
}

/// Faults in holds, waits and their ends, which random histories find by themselves.
const FOUND_BY_HISTORIES: [&str; 7] = [
    "a release of any owner's hold",
    "a release that wakes nobody",
    "an eviction that keeps the waiters waiting",
    "an extension by any owner",
    "an extension renews nothing",
    "an inspection of a hold that expired",
    "tokens that begin anew after an expiry",
];

#[test]
fn random_histories_find_what_is_wrong_with_holds_and_waits() {
    thread::scope(|scope| {
        for name in FOUND_BY_HISTORIES {
            let broken = BREAKS.iter().find(|broken| broken.name == name).expect("a break");
            let test = move || verdict("every_history_agrees_with_the_model", To((broken.make)()));
            scope.spawn(move || {
                // Random cases: one run may miss a fault that another finds.
                let said = (0..20).find_map(|_| test().err()).expect(name);
                assert!(said.contains("is to "), "{name}: {said}");
            });
        }
    });
}

#[test]
fn each_break_has_a_name_of_its_own() {
    let names: HashSet<_> = BREAKS.iter().map(|broken| broken.name).collect();
    assert_eq!(names.len(), BREAKS.len());
}
