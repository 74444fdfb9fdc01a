//! Processes of a test. They end with the test, even if it is killed.

pub mod child;
mod folder;
mod program;
pub mod signal;
mod tethered;

pub(crate) use self::folder::new_folder;
pub use self::program::require;
pub(crate) use self::tethered::Tether;
pub use self::tethered::Tethered;
