//! The transactions, and the views of a lock in their answers.

pub(crate) mod floor;
pub(crate) mod requests;
pub(crate) mod standing;
pub(crate) mod view;
