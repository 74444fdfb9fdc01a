//! Operations in a cluster: attempts, renewals, endings, runs and listings.

pub(crate) mod attempt;
pub(crate) mod backend;
mod doctor;
pub(crate) mod ending;
pub(crate) mod keeper;
pub(crate) mod listing;
pub(crate) mod renewal;
pub(crate) mod runs;
