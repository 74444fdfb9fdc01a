//! The claims of this client, and their sessions.

pub(crate) mod claimed;
pub(crate) mod claims;
pub(crate) mod in_flight;
pub(crate) mod key_lease;
pub(crate) mod marks;
pub(crate) mod pool;
pub(crate) mod session;
