//! The suite refuses each broken backend, by the case that is named for it, and neither a sound one nor a
//! slow one.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lock_core::backend::async_trait;
use lock_core::{DistributedLock, LockName};
use lock_testkit::broken::{BREAKS, Break, unbroken};
use lock_testkit::conformance::{CASES, Harness};
use tokio::runtime::Builder;

/// All connections lead to this backend.
struct To(Arc<dyn DistributedLock>);

#[async_trait]
impl Harness for To {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        self.0.clone()
    }

    async fn evict(&self, name: &LockName) {
        self.0.evict(name).await.expect("an answer");
    }

    /// What a broken backend never does is not waited for as long.
    fn limit(&self) -> Duration {
        Duration::from_secs(10)
    }
}

mod sound {
    use super::{To, unbroken};

    lock_testkit::conformance_tests!(To(unbroken()));
}

/// A store that waits for a slow disk in each call.
mod slow {
    use std::sync::Arc;
    use std::time::Duration;

    use lock_core::backend::async_trait;
    use lock_core::{DistributedLock, LockAdmin, LockName};
    use lock_testkit::conformance::Harness;
    use lock_testkit::{Fault, Faulty, Operation};

    struct Slow(Faulty);

    #[async_trait]
    impl Harness for Slow {
        async fn connect(&self) -> Arc<dyn DistributedLock> {
            Arc::new(self.0.clone())
        }

        async fn evict(&self, name: &LockName) {
            self.0.evict(name).await.expect("an answer");
        }

        fn ttl(&self) -> Duration {
            Duration::from_secs(2)
        }

        fn request_timeout(&self) -> Duration {
            Duration::from_secs(4)
        }
    }

    fn slow() -> Slow {
        let faulty = Faulty::new(super::unbroken());
        for operation in [
            Operation::TryAcquire,
            Operation::ExtendAll,
            Operation::Release,
            Operation::Withdraw,
            Operation::Inspect,
            Operation::List,
            Operation::Evict,
            Operation::Doctor,
        ] {
            faulty.always(operation, Fault::Late(Duration::from_millis(40)));
        }
        Slow(faulty)
    }

    lock_testkit::conformance_tests!(slow());
}

/// What the suite says of a broken backend by the case that is named for it.
fn verdict(broken: &Break) -> Result<(), String> {
    let case = CASES.iter().find(|case| case.name() == broken.case);
    let case = *case.unwrap_or_else(|| panic!("no such case: {}", broken.case));
    let backend = (broken.make)();
    let run = move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(case.run(&To(backend)));
    };
    thread::spawn(run).join().map_err(|panic| text(&*panic))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|said| said.to_string())).unwrap_or_default()
}

/// What is wrong with the verdict on a broken backend.
fn complaint(broken: &Break) -> Option<String> {
    let Break { name, case, expected, .. } = broken;
    match verdict(broken) {
        Ok(()) => Some(format!("{name:?} passes {case}")),
        Err(said) if said.contains(expected) => None,
        Err(said) => Some(format!("{name:?} fails {case} otherwise than by {expected:?}: {said}")),
    }
}

/// Most of them wait for most of the time, so some are tried at once.
#[test]
fn the_suite_refuses_each_broken_backend_and_says_what_was_expected() {
    let (breaks, complaints) = (Mutex::new(BREAKS.iter()), Mutex::new(Vec::new()));
    let next = || breaks.lock().expect("no panic").next();
    let work = || {
        while let Some(broken) = next() {
            let found = complaint(broken);
            complaints.lock().expect("no panic").extend(found);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let complaints = complaints.into_inner().expect("no panic");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn each_break_has_a_name_of_its_own() {
    let names: HashSet<_> = BREAKS.iter().map(|broken| broken.name).collect();
    assert_eq!(names.len(), BREAKS.len());
}
