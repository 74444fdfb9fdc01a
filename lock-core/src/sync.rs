//! The mutexes and atomics of the engine: those of the standard library.
//!
//! With `cfg(lock_core_shuttled)` they are shuttle's: at each use of one, an exploration of schedules may go on with
//! another task. The name is our own, since a service may build its own tests with `cfg(shuttle)`.

#[cfg(lock_core_shuttled)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(lock_core_shuttled))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

/// Locks a mutex, also after a panic of a task that had locked the mutex.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
