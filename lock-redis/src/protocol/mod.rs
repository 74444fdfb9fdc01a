//! The protocol: keys, requests, replies and errors.

pub(crate) mod error;
pub(crate) mod holders;
pub(crate) mod keys;
pub(crate) mod listing;
pub(crate) mod message;
pub(crate) mod reply;
