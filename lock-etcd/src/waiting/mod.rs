//! Places in queues, and how their turns come.

pub(crate) mod overtaking;
pub(crate) mod waiters;
pub(crate) mod watches;
