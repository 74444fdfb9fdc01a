//! Backends that are broken on purpose, each in one way that an author may overlook.
//!
//! They show the behaviours that the [conformance suite](crate::conformance) refuses: [`BREAKS`] names, for each
//! backend, the case that fails and its message. Each behaves like the memory backend, except for its flaw. Authors
//! of new cases can use them to check that a case can fail.

mod batches;
mod blocking;
mod breaks;
mod claims;
mod endings;
mod exclusion;
mod extensions;
mod flaw;
mod listing;
mod names;
mod once;
mod owners;
mod repeats;
mod reservations;
mod short_ttl;
mod shortening;
mod tokens;
mod waiting;
mod watching;
mod withdrawals;

pub use self::breaks::{BREAKS, Break, unbroken};
