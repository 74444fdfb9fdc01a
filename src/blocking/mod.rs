//! The same locks for threads without async: calls block, and a guard gives its lock back when it is dropped.
//!
//! ```
//! # fn sell_one(_: leasehold::FencingToken) {}
//! # fn main() -> Result<(), leasehold::LockError> {
//! use leasehold::blocking;
//!
//! let locks = blocking::connect("memory:")?; // or redis://…, etcd://…, postgres://…, file:…
//! let sale = locks.with("stock:42", |held| sell_one(held.token()))?;
//! if let Err(lost) = sale.hold {
//!     println!("done, but not under the lock to the end: {lost}");
//! }
//! # Ok(()) }
//! ```
//!
//! Requests, errors and guarantees are those of the [async client](crate::LockClient), which does the work.
//!
//! # The thread behind a client
//! [`connect`] and [`LockClient::open`] start one thread, which renews and gives back. Clones and guards share it,
//! and it ends with the last of them. That last drop waits until the server knows what was dropped before, for
//! [2 s](crate::ClientOptions::REQUEST_TIMEOUT) at the most, so that a program may return from `main` afterwards. It
//! does not wait on a thread that belongs to a Tokio runtime.
//!
//! # Within an async runtime
//! A call that blocks would keep the runtime's thread. **Each call that says so panics, as Tokio's `block_on` does**, if
//! a task of Tokio makes it: async code uses the async client. Threads of `spawn_blocking` may call.
//!
//! # Loss
//! Work that blocks cannot be dropped when the lock is lost, as async work is. Ask [`LockGuard::is_held`] between its
//! steps, and let the resource check the [token](LockGuard::token).

mod client;
mod guard;
mod runtime;

pub use self::client::{LockClient, connect};
pub use self::guard::LockGuard;
