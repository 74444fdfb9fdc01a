//! Backends that are broken on purpose, each in one way that an author may overlook.
//!
//! They show what the [conformance suite](crate::conformance) refuses: [`BREAKS`] names for each the case
//! that fails, and what it says. Each does what the memory backend does, but for its flaw. Who writes a
//! case of their own can see by them that it bites.

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
mod several;
mod short_ttl;
mod shortening;
mod tokens;
mod waiting;
mod watching;
mod withdrawals;

pub use self::breaks::{BREAKS, Break, unbroken};
