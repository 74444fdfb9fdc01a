//! The conformance suite: one function per behaviour that the contract demands, for every backend.
//!
//! A backend's tests are its [`Harness`] and one line:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use lock_testkit::conformance::Harness;
//! use lock_core::backend::async_trait;
//! use lock_core::{DistributedLock, LockAdmin, LockName, MemoryBackend, Whom};
//!
//! struct Memory(MemoryBackend);
//!
//! #[async_trait]
//! impl Harness for Memory {
//!     async fn connect(&self) -> Arc<dyn DistributedLock> {
//!         Arc::new(self.0.clone())
//!     }
//!
//!     async fn evict(&self, name: &LockName) {
//!         self.0.evict(name, &Whom::All).await.expect("an answer");
//!     }
//! }
//!
//! lock_testkit::conformance_tests!(Memory(MemoryBackend::new()));
//! ```
//!
//! The line makes one `#[tokio::test]` of each function, named by the tested clause (`tokio` with `macros` and
//! `rt-multi-thread` must be a dev-dependency). The functions may run in parallel on one server; each uses its own
//! names. The harness of a slow store gives it more time. For a separate test runner, [`CASES`] has all cases.
//!
//! [`Faulty`](crate::Faulty) injects faults between the policy of `lock-core` and the backend.
//! [`broken`](crate::broken) shows the behaviours that the suite refuses: backends with one fault each.
//!
//! # Panics
//! All functions panic if the backend breaks the contract, and name the expected behaviour.

mod cancellation;
mod cases;
mod deadlines;
mod elections;
mod endings;
mod exclusion;
mod harness;
mod holders;
mod kinds;
mod listing;
mod model;
mod names;
mod numbers;
mod once;
mod operators;
mod outcomes;
mod ownership;
mod passing;
mod records;
mod renewal;
mod resources;
mod several;
mod steps;
mod tokens;
mod ttls;
mod waiting;
mod watching;
mod withdrawals;

pub use self::cases::{CASES, Case};
pub use self::harness::Harness;

crate::conformance_tests! { @all export [] }
