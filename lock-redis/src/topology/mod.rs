//! Which servers there are, and which of them a request goes to.

#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "cluster")]
mod discovery;
#[cfg(any(feature = "cluster", feature = "quorum", feature = "sentinel"))]
pub(crate) mod hosts;
pub(crate) mod one;
pub(crate) mod options;
pub(crate) mod rights;
#[cfg(feature = "sentinel")]
mod sentinel;
pub(crate) mod server;

#[cfg(feature = "cluster")]
pub(crate) use self::cluster::Cluster;
#[cfg(feature = "sentinel")]
pub(crate) use self::sentinel::Sentinels;
