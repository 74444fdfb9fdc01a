//! Histories on real servers under random faults, and a checker that judges them.
//!
//! Workers, each a separate process, acquire, use and give up locks in every way of the API. Faults strike their
//! network, their server and themselves, at moments and for spans that a seed chooses. The workers write all events
//! to files, with one clock. The checker reads the files at the end. It names each broken clause, the processes and
//! the faults, in words and as a drawing.
//!
//! Implement [`Store`] for your store. Then a test is one line, and the role of its workers another:
//!
//! ```no_run
//! use lock_testkit::chaos::{self, Plan};
//! use lock_testkit::child;
//! # use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};
//! # use lock_core::{DistributedLock, LockError};
//! # struct Mine;
//! # impl chaos::Store for Mine {
//! #     const NAME: &str = "mine";
//! #     async fn start(_: &Path) -> Self { Self }
//! #     fn url(&self, _: Option<SocketAddr>) -> String { String::new() }
//! #     async fn connect(_: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
//! #         Ok(Arc::new(lock_core::MemoryBackend::new()))
//! #     }
//! # }
//!
//! #[test]
//! fn child_role() {
//!     child::run(async |_| chaos::play::<Mine>().await);
//! }
//!
//! #[tokio::test(flavor = "multi_thread")]
//! async fn histories_under_faults_keep_the_contract() {
//!     chaos::run::<Mine>(&Plan::of_environment()).await.demand_none();
//! }
//! ```
//!
//! The checker judges S1, S2, S3, S4, C9, C17, C42, L1 and R1. After a fault that makes a store forget its answers,
//! S3 may break: such a case is counted, and is no violation.

mod bounds;
mod clock;
mod crew;
mod drawing;
mod fault;
mod history;
mod injector;
mod journal;
mod kept;
mod leftovers;
mod linear;
mod network;
mod note;
mod overlaps;
mod plan;
mod register;
mod report;
mod rng;
mod run;
mod store;
mod table;
mod tokens;
mod updates;
mod usage;
mod uses;
mod ways;
mod worker;

pub use self::fault::{Fault, Victim};
pub use self::kept::Kept;
pub use self::linear::{Act, Operation, OperationOutcome};
pub use self::plan::Plan;
pub use self::register::{FileRegister, Register};
pub use self::report::{Report, Violation};
pub use self::run::{play, run};
pub use self::store::{
    SERVER_FAULTS, Store, clock_faults, settle_clock, strike_clock, strike_server,
};
