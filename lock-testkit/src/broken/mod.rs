//! Backends that are broken on purpose, each in one way that an author may overlook.
//!
//! They show the behaviours that the [conformance suite](crate::conformance) refuses: [`BREAKS`] names, for each
//! backend, the case that fails and its message. Each behaves like the memory backend, except for its flaw. Authors
//! of new cases can use them to check that a case can fail.

mod abilities;
mod backend;
mod breaks;
mod flaw;
mod seen;

pub use self::breaks::{BREAKS, Break, unbroken};
