//! What a backend of locks does: the operations, the fence, and what operators ask.

mod admin;
pub(crate) mod backend;
mod changes;
mod claims;
mod connect;
pub(crate) mod doctor;
pub(crate) mod fence;
pub(crate) mod renewals;
