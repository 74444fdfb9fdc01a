//! The claims of this client, and the sessions that they are on.

pub(crate) mod claimed;
pub(crate) mod claims;
pub(crate) mod in_flight;
pub(crate) mod marks;
pub(crate) mod session;
