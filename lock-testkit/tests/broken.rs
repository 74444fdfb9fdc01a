//! The suite refuses each broken backend, by the case that is named for it, and no sound one.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;
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

lock_testkit::conformance_tests!(To(unbroken()));

/// What the suite says of a broken backend by the case that is named for it.
fn verdict(broken: &Break) -> Result<(), String> {
    let case = CASES.iter().find(|case| case.name() == broken.case);
    let case = *case.unwrap_or_else(|| panic!("no such case: {}", broken.case));
    let backend = (broken.make)();
    let run = move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(case.run(&To(backend)));
    };
    std::thread::spawn(run).join().map_err(|panic| text(&*panic))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|said| said.to_string())).unwrap_or_default()
}

/// What is wrong with the verdict on a broken backend.
fn complaint(broken: &Break) -> Option<String> {
    match verdict(broken) {
        Ok(()) => Some(format!("{:?} passes {}", broken.name, broken.case)),
        Err(said) if !said.contains(broken.expected) => Some(format!(
            "{:?} fails {} otherwise than by {:?}: {said}",
            broken.name, broken.case, broken.expected
        )),
        Err(_) => None,
    }
}

#[test]
fn the_suite_refuses_each_broken_backend_and_says_what_was_expected() {
    let complaints: Vec<_> = BREAKS.iter().filter_map(complaint).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn each_break_has_a_name_of_its_own() {
    let names: HashSet<_> = BREAKS.iter().map(|broken| broken.name).collect();
    assert_eq!(names.len(), BREAKS.len());
}
