//! Leasehold's locks in a directory: for the processes of one machine, without a server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let directory = home.path().join("locks");
//! use lock_core::LockClient;
//! use lock_file::FileBackend;
//!
//! let locks = LockClient::new(FileBackend::open(&directory)?);
//! let guard = locks.acquire("report:daily").await?;
//! // Another process that opens the same directory is told that the lock is busy:
//! let other = LockClient::new(FileBackend::open(&directory)?);
//! assert!(other.try_acquire("report:daily").await?.is_none());
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! - [`FileBackend`] is the backend: a directory with one small file per lock. Waiters are served first come,
//!   first served, and are told.
//! - [`FileFence`] stands with a resource that is itself a file, and refuses stale holders.
//!
//! # Which lock should you use
//! A hold here is a lease, as with every backend of Leasehold: it ends by itself when its holder
//! dies or hangs, it has a fencing token, and it can be handed to another process. If none of that
//! is needed, and the hold is to last exactly as long as a process has a file open, then
//! [`std::fs::File::lock`] does it without a library. For processes of several machines take a
//! backend with a server.
//!
//! # How a record survives a crash
//! The state of a lock begins with a record of at most a kilobyte, changed only under the operating
//! system's lock on its file ([`std::fs::File::try_lock`]), which ends with the process that holds
//! it. The file has two slots; a change is one write into the slot that is *not* in force, with a
//! greater sequence number and a checksum. A reader takes the whole slot with the greatest
//! sequence number. So a process that is killed at any byte leaves the old record or the new one.
//! There is no temporary file and no rename, hence never a second file to lock.
//!
//! Waiters queue behind the slots of the same file, and a lock that several hold has its holds there. Such a part
//! is written first, and the record that names it last. So what was said of a record holds for them as well.
//!
//! Nothing is synced to the disk, on purpose. What a process wrote is seen by all others at once,
//! and stays when that process dies: the page cache belongs to the kernel. Only a crash of the
//! machine can lose it, and that ends every hold anyway: a record says when and in which boot it was
//! written, and the hold of another boot is over. Tokens go on all the same, because a token is
//! the greater of the last one plus one and the wall clock in microseconds.
//!
//! A [run](lock_core::LockClient::once) that ended well is a file of its own in the folder `runs`, written whole and
//! synced before it is put in its place under the lock's file lock. It is kept for as long as it is to be remembered by the
//! wall clock, and removed when later runs of the same lock are recorded.
//!
//! # What is assumed
//! - A **local** file system. On others file locks and caches are not shared by all machines, whose boots are not the
//!   same. [`FileBackend::open`] refuses those that it does not know to be local; [`FileOptions`] may say that one is.
//! - Linux, for the clock that counts suspend, and `/proc`, for the id of the boot and the time namespace.
//! - Processes of one user on one kernel, in any containers: directory and files are private, because a
//!   record holds the owner id, which is a capability.
//! - Files are left alone while any process uses them. Each name that was ever used keeps a file of
//!   2 KiB, since the token must go on; delete them only when nobody uses the directory.
//! - A Tokio runtime with I/O, for those who wait: they hear of their turn by a socket in the folder `waiters`
//!   of the directory. In a runtime without it they look each second.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod blocking;
mod creation;
mod digest;
mod directory;
mod fault;
mod fence;
mod hold_table;
mod listener;
mod lock;
mod locked_file;
mod machine;
mod notification;
mod options;
mod parts;
mod path;
#[cfg_attr(target_os = "linux", path = "platform/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "platform/elsewhere.rs")]
mod platform;
mod queue;
mod queue_entry;
mod record;
mod replacement;
mod runs;
mod slots;
#[cfg_attr(target_os = "linux", path = "sockets/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "sockets/elsewhere.rs")]
mod sockets;
mod state_file;
#[cfg(test)]
mod testing;

pub use crate::backend::FileBackend;
pub use crate::fence::FileFence;
pub use crate::options::FileOptions;
