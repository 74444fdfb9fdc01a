//! Places in queues, and their turns.

pub(crate) mod overtaking;
pub(crate) mod waiters;
pub(crate) mod watches;
