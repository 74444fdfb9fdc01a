//! Processes that a test starts, and that end with the test, even when it is killed.

pub mod child;
mod program;
pub mod signal;
mod tethered;

pub use self::program::require;
pub(crate) use self::tethered::Tether;
pub use self::tethered::Tethered;
