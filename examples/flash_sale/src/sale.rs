//! The sale in figures, and what ends it early.

use std::error::Error;

/// How many items there are to sell.
pub(crate) const STOCK: u32 = 100;
/// How many people want one.
pub(crate) const BUYERS: u32 = 1000;
/// How many processes serve them.
pub(crate) const WORKERS: u32 = 10;

/// An error that ends the show. Nothing treats one kind of it differently from another.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
