//! Leasehold's locks on etcd: transaction and watch, one write to take and one to give back, waiters
//! served first come, first served by push, and fencing tokens that are revisions of the store.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::LockError> {
//! use lock_core::LockClient;
//! use lock_etcd::EtcdBackend;
//!
//! let locks = LockClient::new(EtcdBackend::connect("etcd://10.0.0.1,10.0.0.2,10.0.0.3/").await?);
//! let guard = locks.acquire("stock:42").await?;
//! # Ok(()) }
//! ```
//!
//! # Protocol
//! A claim is a key, `{prefix}/locks/{name}/{owner}`, on a lease whose id we choose. The claim that
//! was created first holds the lock; the others are the queue. The value is the holder's label and, if
//! the lock was granted at once, the holder's wall clock at that moment.
//!
//! - **Acquire**: one transaction. If nobody has a claim, ours is written with a lease of the whole
//!   TTL, and holds. Else, if the caller waits, ours is written with a lease of 2 s, which the waiter
//!   renews as it looks again each second: a waiter that died is gone after 2 to 3 s.
//! - **Waiting**: a waiter watches only the claim before its own, from the current revision on, and
//!   reads once after the watch is open. When that claim goes it reads again: that read proves that
//!   its own claim is still there and is now the first. The hold that is pushed to it lasts for what
//!   is left of the 2 s, and is moved to a lease of the whole TTL by its first renewal.
//! - **Token**: the claim's create revision. It grows with every write to the cluster, survives
//!   renewals, moves between leases, restarts and changes of leader, and any transaction can compare
//!   it.
//! - **Renewal**: a keep-alive of each lease, and then the proof: the claims are read, up to a hundred
//!   in one request. A keep-alive alone proves nothing (etcd#14758). A lease has one TTL for life: a
//!   hold that wants a longer one moves its key to another lease, in a transaction that compares. If
//!   that transaction had no answer, both leases are renewed, since it may be carried out late.
//! - **Release**: the claim is deleted. Its lease stays in stock for a second, for the next hold of
//!   the same TTL, and is then revoked. It is revoked at once if a late request might use it, or if
//!   somebody else deleted the claim. So a lease is never on two keys.
//! - **Withdrawal**: of a claim with a request that had no answer, the leases are revoked first. A
//!   transaction that arrives late is then refused by the server, whatever it waited in.
//! - **Loss**: each hold's own key is watched, so that its holder is told at once when it is deleted
//!   or its lease is revoked. One stream serves all watches of a client; when it breaks it is opened
//!   again, and all keys are read again.
//!
//! Requests go to one member at a time, and to the next one when it fails, cannot be reached, or is
//! silent. The server's own Lock call is not used: it lets a waiter whose lease has expired believe
//! (etcd#11456), has no way to try, and hands over through a loop of 100 ms.
//!
//! # What etcd does not promise
//! A lease is renewed and expires by the leader's clock; a change of leader starts all leases anew, so
//! that a hold whose holder died may last for twice its TTL and an election. Versions before 3.4.38,
//! 3.5.23 and 3.6.5 may confirm a lease that has expired, or end one early while leadership changes:
//! the holder learns of it by its watch, and its token is then the smaller one. Check tokens at the
//! resource ([`EtcdFence`]). Restoring a backup brings back old locks and lets tokens fall back,
//! unless it bumps the revision.
//!
//! etcd 3.4 or newer. A user needs `readwrite` on the prefix.

mod attempt;
mod backend;
mod claims;
mod cluster;
mod connect;
mod doctor;
mod ending;
mod error;
mod fence;
mod identity;
mod keeper;
mod keys;
mod listing;
mod options;
mod recent;
mod renewal;
mod requests;
mod server;
mod session;
mod value;
mod view;
mod waiters;
mod watches;

pub use crate::backend::EtcdBackend;
pub use crate::fence::{EtcdFence, FenceComparison};
pub use crate::options::EtcdOptions;

/// The client library in use, for benches beside it. It is no part of the interface: its version
/// changes as it likes.
#[doc(hidden)]
pub use etcd_client;

/// The former name of [`EtcdBackend`]: it is a store of locks, not a lock.
#[deprecated(note = "it is called `EtcdBackend` now")]
pub type EtcdLock = EtcdBackend;
