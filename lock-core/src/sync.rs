//! The mutexes and atomics of the engine: those of the standard library.
//!
//! With `cfg(shuttle)` they are shuttle's, at each use of which an exploration of schedules may go on with another task.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
