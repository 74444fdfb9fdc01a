//! Leasehold's locks on ZooKeeper: ephemeral sequential nodes, waiters served first come, first served by watches, and
//! fencing tokens that grow with the transactions of the store.
//!
//! ```no_run
//! # async fn example() -> Result<(), lock_core::LockError> {
//! use lock_core::LockClient;
//! use lock_zookeeper::ZooKeeperBackend;
//!
//! let locks = LockClient::new(ZooKeeperBackend::connect("zookeeper://10.0.0.1,10.0.0.2,10.0.0.3/").await?);
//! let guard = locks.acquire("stock:42").await?;
//! # Ok(()) }
//! ```
//!
//! # Protocol
//! A claim is an ephemeral node, `{root}/locks/{name}/{owner}-{sequence}`. The claim with the lowest sequence holds the
//! lock, once its data says so; the others are the queue. The node of the lock is a container, which the server removes
//! some time after its last child. Shared claims, `{owner}-shared-{sequence}`, hold beside those of their kind that are
//! before them, and claims on permits, `{owner}-{taken}of{permits}-{sequence}`, as long as there is room: their data tells
//! the slots.
//!
//! - **Session**: one for each TTL that the client uses, a third longer than it. It is ended when nothing hangs on it for
//!   15 s, or when the client shuts down. A session that its client does not keep, because it died or is cut off, takes its
//!   nodes with it.
//! - **Acquire**: the children of the lock are read. If there is none, or the caller waits, one transaction makes the node,
//!   and the children are read once more with it. The owner is in the node's name, so that a request whose reply was lost
//!   is found again.
//! - **Waiting**: a waiter watches the node before its own alone; a reader the nearest writer before it, and the first that
//!   waits for permits all nodes of the lock. When its turn has come, it writes that it holds. A waiter behind it deletes
//!   it if it does not within 2 s: its client has died, or is cut off.
//! - **Token**: the floor of the store plus the id of the transaction that made the node. The floor is the time in
//!   microseconds at which the ensemble was first used, so that tokens are above those of other stores and of earlier
//!   ensembles. Each transaction that makes a claim checks it.
//! - **Renewal**: one transaction checks the nodes of up to a hundred holds. Most members take part in it, so that a member
//!   which is cut off extends nothing. A hold that is to last for longer than its session moves to another, in one
//!   transaction, with its place and token.
//! - **End**: a release deletes the node. So does the client for a claim that nobody renews, since its session goes on.
//! - **Withdrawal**: a mark is left for at least 30 s, and the nodes of the claim are deleted. A request of the claim that
//!   arrives late makes and deletes the same mark, which fails, and so makes no node. The mark is on the session of the
//!   client that left it.
//! - **Loss**: each hold's own node is watched, so that its holder is told at once when it is deleted.
//!
//! # What ZooKeeper does not promise
//! A hold whose holder died lasts for its session: four thirds of its TTL, at least the shortest session of the server (by
//! default 4 s), and up to a tick more (by default 2 s). A change of leader starts all sessions anew. TTLs above three
//! quarters of the longest session (by default 40 s) are refused.
//!
//! # Formats
//! This is the first. A node that is not wholly understood is a holder that is waited for. A later format begins the data
//! of its nodes with another word.
//!
//! ZooKeeper 3.5.3 or newer.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
mod backend;
mod claims;
mod doctor;
mod ending;
mod error;
mod floor;
mod keeper;
mod listing;
mod names;
mod options;
mod queue;
mod renewal;
mod sessions;
mod standing;
mod store;
mod waiting;
mod written;

pub use crate::backend::ZooKeeperBackend;
pub use crate::options::ZooKeeperOptions;
