//! Locks for threads without async: calls block, and a guard releases its lock when it is dropped.
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
//! [`connect`] and [`LockClient::open`] start one thread, which renews and releases. Clones and guards share it,
//! and it ends with the last of them. That last drop waits until the server has confirmed all earlier releases,
//! for at most [2 s](crate::ClientOptions::REQUEST_TIMEOUT), so that a program may return from `main` afterwards.
//! On a thread that belongs to a Tokio runtime it does not wait.
//!
//! # After a fork
//! A fork has no such thread, so it has [no client](crate::LockClient#fork): a call fails at once, and a drop does nothing.
//! Open the client in the new process.
//!
//! # Within an async runtime
//! A blocking call would block the runtime's thread. **So each call that blocks panics in a task of Tokio, like
//! Tokio's `block_on`**: async code uses the async client. Threads of `spawn_blocking` may call.
//!
//! # Loss
//! Blocking work cannot be dropped when the lock is lost, unlike async work. Check [`LockGuard::is_held`] between
//! its steps, and let the resource check the [token](LockGuard::token).

mod client;
mod guard;
mod runtime;

pub use self::client::{LockClient, connect};
pub use self::guard::LockGuard;
