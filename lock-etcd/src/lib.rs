//! Leasehold's locks on etcd, by transactions and watches. Acquire and release are one write each, waiters are served
//! first come, first served by push, and fencing tokens grow with the revisions of the store.
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
//! A claim is a key, `{root}/locks/{name}/s-{seat}`. The claims at the head, in the order of their creation, hold the
//! lock if they fit together: one exclusive claim, or several others. The rest are the queue. The value has the kind
//! of a claim that is not exclusive, the holder's label, the holder's wall clock at the grant if the lock was granted
//! at once, and the owner.
//!
//! Keys are reused: until its history is compacted, the server goes through all former keys of a lock. A client uses
//! the first of its seats that is free on the lock. It gives a seat up if a request for its key had no answer, since
//! that request may come late.
//!
//! ```text
//!   client ── session for a TTL of 30 s ──┬── lock a, held
//!      │      (one lease of 32 s)         ├── lock b, waiting
//!      │                                  └── …
//!      └───── marks (a lease of 40 s) ──────  claims that were withdrawn
//! ```
//!
//! - **Session**: one lease for each TTL of the client, granted when it is first needed. One request renews it at a
//!   third of its TTL, however many claims use it. It ends when no claim has used it for 15 s, or when the client
//!   shuts down. Its lease is 2 s longer than the TTL. A claim that finds less than its TTL left on it renews it
//!   first.
//! - **Acquire**: one transaction. Without any claim on the lock, ours is written, and holds. Otherwise, if the
//!   caller waits, ours is written as a place in the queue, on the same session.
//! - **Many at once**: acquisitions and releases of many tasks of a client go as parts of one transaction. Each part
//!   has its own answer. A transaction has at most one part for each lock.
//! - **Waiting**: a waiter watches the two claims before its own. When the farther one goes, it reads which claims
//!   are left before it. When the nearer one goes and no other is left, it holds the lock, without a further read,
//!   since no claim can come before an existing one. A client looks at all its places every 0.8 s, at three keys
//!   each.
//! - **Overtaking**: a hold that came from a place is believed for less than 2 s, until its first renewal has written
//!   into its value that it is held. If nobody claims the front of the queue for that time, and nobody has written to
//!   it since it was seen, its client has died or is cut off: a waiter behind it deletes it, or a later one of two tries
//!   of a client that saw it so.
//! - **Shared**: also one transaction. If all claims are shared, which the server checks by comparing the values,
//!   ours is written beside them, and holds. Otherwise it waits for the claims of other kinds before it, and gets in
//!   together with all readers behind them.
//! - **Permits**: a claim on permits holds once its slots are in its value. Its own client writes them, in the order
//!   of the queue, and once. Without any claim on the lock, that is the first write. Otherwise the client reads the
//!   claims before it: if all of them have slots and enough are free, a second transaction writes its own. No claim
//!   before it takes more slots, and no claim after it takes any before it has its own, so two clients that decide at
//!   once never use one slot twice. A waiter watches the claim before it; the first waiter watches the holders.
//! - **Token**: the floor of the store, plus 64 for each revision from the floor's to that of the claim's creation.
//!   The revision grows with every write to the cluster. It survives renewals, moves between sessions, restarts and
//!   changes of leader, and any transaction can compare it. The floor, `{root}/floor`, is a time in microseconds, so
//!   that tokens are above those of other stores and of earlier clusters. When a client first reads the floor, and
//!   nobody has a claim, it raises the floor to its clock. Each granting transaction compares that the floor has not
//!   changed. A cluster that went back in time, or another cluster, is refused: its tokens would repeat.
//! - **Tasks of one client**: the 64 tokens of a claim are for the tasks to which its hold passes without a request.
//! - **Renewal**: the session is renewed, and then each hold proves that its key exists: many holds by one question
//!   to the session, one hold by a read. A keep-alive alone proves nothing (etcd#14758).
//! - **End**: a release deletes the key. The client also deletes the key of a claim that expires, at the end of its
//!   TTL, since the session goes on. If a client dies or hangs, its session expires with all its keys. A lease that
//!   is attached elsewhere moves to the session of that client.
//! - **Withdrawal**: one transaction deletes the key and leaves a mark for at least 30 s. A late request of the claim
//!   finds the mark, and is refused. Once in 10 s, or in a longer TTL, the client deletes keys on its sessions that
//!   belong to none of its claims.
//! - **Loss**: the key of each hold is watched, so that its holder learns at once when it is deleted or its session
//!   ends. One stream serves all watches of a client. When it breaks, it is opened again, and all keys are read
//!   again.
//!
//! Requests go to one member at a time, and to the next one when it fails, cannot be reached, or is silent. The
//! server's own Lock call is not used: a waiter whose lease has expired may believe that it holds (etcd#11456), there
//! is no try, and a hand-off goes through a loop of 100 ms.
//!
//! # Limits of etcd
//! Leases are renewed and expire by the leader's clock. A change of leader starts all leases anew, so the hold of a
//! dead holder may last for twice its TTL and an election. Versions before 3.4.38, 3.5.23 and 3.6.5 may confirm an
//! expired lease. If their leader was stopped for longer than a TTL, it may end leases that are being renewed. The
//! holder learns of it by its watch, but the next holder may have begun by then; the first one has the smaller token.
//! Check tokens at the resource ([`EtcdFence`]). The restore of a backup brings back old locks. A client that saw
//! newer tokens refuses such a store. A client that was started since raises the floor, if the restored cluster has
//! another id. Otherwise an operator must delete the floor, and until then tokens fall back.
//!
//! # Formats
//! This is the first format. A claim's value that is not fully understood is an exclusive claim of another: it is
//! waited for. A later format begins the values of its claims with a byte from `0xF8` to `0xFB`, and those of its
//! marks and records with a letter, which this version refuses.
//!
//! etcd 3.4 or newer. A user needs `readwrite` on the keys below the root.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod connect;
mod fence;
mod layout;
mod operations;
mod options;
mod protocol;
mod sessions;
mod waiting;
mod wire;

pub use crate::fence::{EtcdFence, FenceComparison};
pub use crate::operations::backend::EtcdBackend;
pub use crate::options::EtcdOptions;

/// The client library in use, for benches beside it. It is no part of the interface: its version may change at any
/// time.
#[doc(hidden)]
pub use etcd_client;
