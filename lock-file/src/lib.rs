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
//! - [`FileBackend`] is the backend: a directory with one small file per lock. Waiters are served first come, first
//!   served, and are notified.
//! - [`FileFence`] protects a resource that is itself a file, and refuses stale holders.
//!
//! # Which lock should you use
//! A hold here is a lease, as with every backend of Leasehold: it ends by itself when its holder dies or hangs, it
//! has a fencing token, and it can be handed to another process. If you need none of that, and the hold must last
//! exactly as long as a process has a file open, use [`std::fs::File::lock`], without a library. For processes of
//! several machines use a backend with a server.
//!
//! # How a record survives a crash
//! The state of a lock begins with a record of at most 4 KiB. It is changed only under the operating system's
//! lock on its file ([`std::fs::File::try_lock`]), which ends with the process that holds it. The file has two slots.
//! A change is one write into the slot that is *not* valid now, with a greater sequence number and a checksum. A
//! reader takes the complete slot with the greatest sequence number. So a process that is killed at any byte leaves
//! the old record or the new one. There is no temporary file and no rename, and never a second file to lock.
//!
//! The queue of waiters, and holds that find no room in the record, are behind the slots of the same file. Such a part is
//! written first, and the record that names it last. So a crash leaves the old part or the new one too. The first grant
//! writes both slots, so that no renewal needs a block of the disk.
//!
//! Nothing is synced to the disk, on purpose. All processes see a write at once, and it stays when its process dies:
//! the page cache belongs to the kernel. Only a crash of the machine can lose it, and that ends every hold anyway: a
//! record has its time and its boot, and a hold of another boot is over. Tokens still grow, because a token is the
//! last one plus one, or the wall clock in microseconds if that is greater.
//!
//! A [run](lock_core::LockClient::once) that succeeded is a file in the folder `runs`. It is written completely and
//! synced before it is put in its place under the lock's file lock. It is kept for its time on the wall clock, and
//! removed when later runs of the same lock are recorded.
//!
//! # Assumptions
//! - A **local** file system. On other file systems, machines do not share all file locks and caches, and their boots
//!   differ. [`FileBackend::open`] refuses file systems that are not known to be local; [`FileOptions`] can declare
//!   one as local.
//! - Linux, for the clock that counts suspend, and `/proc`, for the id of the boot and the time namespace.
//! - Processes of one user on one kernel, in any containers. Directory and files are private, because a record holds
//!   the owner id, which is a capability.
//! - Nobody else changes the files while any process uses them. Each name in use keeps a file of 8 KiB, since its
//!   tokens must grow; delete files only when nobody uses the directory.
//! - A Tokio runtime with I/O for waiters: they learn of their turn by a socket in the folder `waiters` of the
//!   directory. In a runtime without I/O they poll each second.
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
mod turn;

pub use crate::backend::FileBackend;
pub use crate::fence::FileFence;
pub use crate::options::FileOptions;
