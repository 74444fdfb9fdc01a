//! The cluster as the rest talks to it: requests to one member, what they answer, and what errors mean.

pub(crate) mod answer;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod server;
