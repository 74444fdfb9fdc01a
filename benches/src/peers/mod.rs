//! Other libraries, locks that servers offer, and the usual recipe.

pub(crate) mod advisory;
pub(crate) mod by_hand;
pub(crate) mod driver_lock;
pub(crate) mod flock;
pub(crate) mod lock_rpc;
pub(crate) mod rslock;
