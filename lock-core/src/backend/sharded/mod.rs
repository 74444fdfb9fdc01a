//! Locks that are spread over several stores, which know nothing of each other.

mod admin;
mod arriving;
mod away;
mod layout;
mod member;
mod moving;
mod opening;
mod rendezvous;
mod shard;
mod sharded_lock;
mod weakest;

pub use self::shard::Shard;
pub use self::sharded_lock::ShardedLock;
