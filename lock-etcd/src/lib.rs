//! Leasehold's locks on etcd: transaction and watch, one write to take and one to give back, waiters
//! served first come, first served by push, and fencing tokens that grow with the revisions of the store.
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
//! A claim is a key, `{root}/locks/{name}/s-{seat}`. The claims at the head, in the order in which they
//! were created, hold the lock as far as they fit together: one that is exclusive, or several that are not.
//! The others are the queue. The value is the kind of a claim that is not exclusive, the holder's label,
//! if the lock was granted at once the holder's wall clock at that moment, and the owner.
//!
//! Keys are used again: the server goes through all keys of a lock that ever were, until its history is
//! compacted. A client takes the first of its seats that is free on the lock. It gives a seat up if a request on
//! its key had no answer, since that request may come late.
//!
//! ```text
//!   client ── session for a TTL of 30 s ──┬── lock a, held
//!      │      (one lease of 32 s)         ├── lock b, waiting
//!      │                                  └── …
//!      └───── marks (a lease of 40 s) ──────  claims that were withdrawn
//! ```
//!
//! - **Session**: one lease for each TTL that the client uses, granted when it is first needed, renewed
//!   at a third of its TTL by one request whatever hangs on it, and ended when nothing does for 15 s, or when the client
//!   shuts down. Its lease is 2 s longer than the TTL. A claim that finds less than its TTL on it renews it first.
//! - **Acquire**: one transaction. If nobody has a claim, ours is written, and holds. Else, if the caller
//!   waits, ours is written as a place in the queue, on the same session.
//! - **Many at once**: acquisitions and releases of many tasks of a client go as parts of one transaction, of which
//!   each has an answer of its own. It has one part of each lock at most.
//! - **Waiting**: a waiter watches the two claims before its own. When the farther one goes, it reads who
//!   is left before it. When the nearer one goes and no other is left, the lock is its own, without a
//!   further read, since no claim can come before one that exists. A client looks at all its places every 0.8 s, at three
//!   keys each.
//! - **Overtaking**: a hold that came by its place is believed in for less than 2 s until its first renewal has written
//!   into its value that it is held. A front of the queue that nobody claims for as long is deleted by a waiter behind
//!   it, if nobody has written to it since it was seen: its client has died, or is cut off.
//! - **Shared**: one transaction too. If all claims are shared ones, which the server sees by comparing the
//!   values, ours is written beside them, and holds. Else it waits for the claims of other kinds before it,
//!   and comes in with all readers behind them.
//! - **Permits**: a claim on permits holds once its slots are written in its value, which it does itself, in
//!   the order of the queue, and once. If nobody has a claim, that is the first write. Else it reads those
//!   before it: if all of them have slots and enough are free, a second transaction writes its own. Nobody
//!   before it takes more, and nobody after it takes any before it has, so that two clients that decide at
//!   once never give one slot twice. A waiter watches what becomes of the claim before it; the first of
//!   those who wait, which of the holders goes.
//! - **Token**: the floor of the store, and 64 for each revision from the floor's to that in which the claim was made. The
//!   revision grows with every write to the cluster, survives renewals, moves between sessions, restarts and changes of
//!   leader, and any transaction can compare it. The floor, `{root}/floor`, is a time in microseconds, so that tokens are
//!   above those of other stores and of earlier clusters. A client raises it to its clock when it first reads it, if nobody
//!   has a claim then. Each granting transaction compares that it is as it was read. A cluster that went back in time, or
//!   another one, is refused: its tokens would repeat.
//! - **Tasks of one client**: the 64 tokens of a claim are those of the tasks that its hold passes to, without a request.
//! - **Renewal**: the session is renewed, and then each hold proves that its key is there: by one question
//!   to the session for many holds, by a read for one. A keep-alive alone proves nothing (etcd#14758).
//! - **End**: a release deletes the key. So does the client for a claim that ends by itself, since its
//!   session goes on: at the end of its own TTL if nobody renews it. A session that its client does not
//!   renew, because it died or hangs, takes its keys with it. A lease that is attached elsewhere moves to
//!   the session of that client.
//! - **Withdrawal**: one transaction deletes the key and leaves a mark for at least 30 s. A request of the
//!   claim that arrives late finds the mark, and is refused. Once in 10 s, or in a longer TTL, the client
//!   deletes keys on its sessions that are no claim of its own.
//! - **Loss**: each hold's own key is watched, so that its holder is told at once when it is deleted
//!   or its session ends. One stream serves all watches of a client; when it breaks it is opened
//!   again, and all keys are read again.
//!
//! Requests go to one member at a time, and to the next one when it fails, cannot be reached, or is
//! silent. The server's own Lock call is not used: it lets a waiter whose lease has expired believe
//! (etcd#11456), has no way to try, and hands over through a loop of 100 ms.
//!
//! # What etcd does not promise
//! A lease is renewed and expires by the leader's clock; a change of leader starts all leases anew, so
//! that a hold whose holder died may last for twice its TTL and an election. Versions before 3.4.38,
//! 3.5.23 and 3.6.5 may confirm a lease that has expired, and a leader of theirs that was stopped for
//! longer than a TTL may end leases that are renewed: the holder learns of it by its watch, the next one
//! may have begun by then, and the first one's token is the smaller one. Check tokens at the resource
//! ([`EtcdFence`]). Restoring a backup brings back old locks. A client that saw newer tokens refuses such a store. One
//! that was started since raises the floor, if the restored cluster has another id; otherwise an operator deletes the
//! floor, and tokens fall back until then.
//!
//! # Formats
//! This is the first. A value of a claim that is not wholly understood is that of an exclusive claim of somebody else's:
//! it is waited for. A later format begins the values of its claims with a byte from `0xF8` to `0xFB`, and those of its
//! marks and records with a letter, which this version refuses.
//!
//! etcd 3.4 or newer. A user needs `readwrite` on the keys below the root.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod connect;
mod doctor;
mod fence;
mod layout;
mod operations;
mod options;
mod protocol;
mod sessions;
mod waiting;
mod wire;

pub use crate::backend::EtcdBackend;
pub use crate::fence::{EtcdFence, FenceComparison};
pub use crate::options::EtcdOptions;

/// The client library in use, for benches beside it. It is no part of the interface: its version
/// changes as it likes.
#[doc(hidden)]
pub use etcd_client;
