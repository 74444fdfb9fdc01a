//! The connections to one server: one for requests, and one for pushes.

pub(crate) mod batch;
pub(crate) mod connection;
mod delivery;
pub(crate) mod key_events;
pub(crate) mod link;
pub(crate) mod node;
pub(crate) mod opening;
pub(crate) mod push;
mod socket;
#[cfg(test)]
mod socket_tests;
mod sync;
mod together;
