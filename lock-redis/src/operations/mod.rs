//! The operations of a backend: on locks, on fences, and for operators.

mod admin;
pub(crate) mod backend;
mod changes;
pub(crate) mod companions;
mod connect;
pub(crate) mod doctor;
mod examination;
pub(crate) mod fence;
pub(crate) mod renewals;
