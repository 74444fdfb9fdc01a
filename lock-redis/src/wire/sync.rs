//! What threads share in [`socket`](super::socket), which the schedules of lock-proof run with types of their own.

pub(super) use std::sync::{Mutex, MutexGuard};

pub(super) use futures_util::task::AtomicWaker;
