//! The transactions, and what their answers say of a lock.

pub(crate) mod floor;
pub(crate) mod requests;
pub(crate) mod standing;
pub(crate) mod view;
