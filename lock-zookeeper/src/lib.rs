//! Leasehold's locks on ZooKeeper: ephemeral sequential nodes, waiters in order of arrival by watches, and
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
//! A claim is an ephemeral node, `{root}/locks/{name}/{owner}-{sequence}`. The claim with the lowest sequence
//! holds the lock, once its data says so; the others are the queue. The node of the lock is a container, which
//! the server removes some time after its last child. Shared claims, `{owner}-shared-{sequence}`, hold beside the
//! shared claims before them. Claims on permits, `{owner}-{taken}of{permits}-{sequence}`, hold once their data has
//! their slots.
//!
//! - **Session**: one for each step of TTLs that the client uses, a third longer than the step, and one for everything
//!   except claims. Paths beyond 512 kB go on another session, since the end of a session is one transaction of all
//!   its paths. The client ends a session that no claim has used for 15 s, and all sessions without claims and marks
//!   when it shuts down. If a client dies or is cut off, the server ends its sessions and deletes their nodes.
//! - **Acquire**: reads the children of the lock. If there is none, or the caller waits, one transaction creates
//!   the node, and the children are read again with it. The owner is in the node's name, so that a request whose
//!   reply was lost is found again.
//! - **Waiting**: an exclusive waiter watches only the node before its own. A reader watches the nearest writer
//!   before it. The first waiter for permits watches all nodes of the lock. When its turn has come, a waiter
//!   writes that it holds. If it does not within 1.9 s, its client has died or is cut off, and a waiter behind
//!   it deletes its node, or a later one of two tries of a client that saw it so.
//! - **Token**: the time of the store's floor, in microseconds, and the number of transactions since, so that tokens
//!   are greater than those of other stores and of earlier ensembles. A client that connects while nobody has a claim
//!   replaces the floor with one of the server's time. Each transaction that creates a claim checks it.
//! - **Renewal**: one transaction checks the nodes of up to a hundred holds. A majority takes part in it, so that
//!   a member that is cut off extends nothing. A hold whose new TTL exceeds its session moves to another session,
//!   in one transaction, with its place and token.
//! - **End**: a release deletes the node. The client also deletes the node of a claim that is not renewed, since
//!   its session goes on.
//! - **Withdrawal**: the client leaves a mark for at least 30 s, and deletes the nodes of the claim. A late
//!   request of the claim creates and deletes the same mark; that fails, and so creates no node. The mark is on
//!   the session of the client that left it.
//! - **Runs**: after a run with a least time, the node of its hold moves to an owner that no claim has. The record of a
//!   run is a persistent node; the transaction that creates it checks the node of the hold.
//! - **Loss**: each hold's own node is watched, so that its holder is told at once when it is deleted.
//!
//! # What ZooKeeper does not promise
//! A hold whose holder died lasts as long as its session: four thirds of its TTL, which is rounded up to a step for
//! that, at least the shortest session of the server (by default 4 s), and up to a tick more (by default 2 s). A change of leader starts all sessions
//! anew. TTLs above three quarters of the longest session (by default 40 s) are refused.
//!
//! # Formats
//! This is the first format. A node that is not wholly understood counts as a holder, and claims wait for it. A
//! later format begins the data of its nodes with another word.
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
mod places;
mod queue;
mod renewal;
mod runs;
mod session;
mod sessions;
mod standing;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod waiting;
mod written;

pub use crate::backend::ZooKeeperBackend;
pub use crate::options::ZooKeeperOptions;
