//! The types that threads share in [`socket`](super::socket), for which the schedules of lock-proof have types of their own.

pub(super) use std::sync::{Mutex, MutexGuard};

pub(super) use futures_util::task::AtomicWaker;
