//! The lowest possible cost on each store: requests without a lock, and messages without a queue.

pub(crate) mod commit_and_notify;
pub(crate) mod create_and_delete;
pub(crate) mod create_to_watch;
pub(crate) mod datagram;
pub(crate) mod pings;
pub(crate) mod publish;
pub(crate) mod put_and_delete;
pub(crate) mod put_to_watch;
pub(crate) mod upserts;
