//! The cluster for the rest of the crate: requests to one member, their answers, and the meaning of errors.

pub(crate) mod answer;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod server;
