//! The operations of a backend: those on locks, the fence, and the operators' part.

mod admin;
pub(crate) mod backend;
mod changes;
mod claims;
mod connect;
pub(crate) mod doctor;
pub(crate) mod fence;
pub(crate) mod renewals;
