//! The keys of locks and their values.

pub(crate) mod keys;
pub(crate) mod seats;
pub(crate) mod stored_claim;
pub(crate) mod value;
