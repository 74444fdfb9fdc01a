//! The store of one client, and how it is asked: within time-outs, with retries, and with events for operators.

mod containment;
#[cfg(feature = "metrics")]
mod meter;
mod options;
mod outage;
mod parts;
mod process;
mod retry;
mod store;
mod telemetry;

pub(crate) use self::containment::{attempted, contained, restarted};
pub use self::options::ClientOptions;
pub(crate) use self::outage::Unanswered;
pub(crate) use self::parts::ClientParts;
pub(crate) use self::retry::{jittered, pause_after};
pub(crate) use self::store::Store;
pub(crate) use self::telemetry::{
    is_loss, waits_for_foreign_key, waits_for_other_number, waits_for_own_hold,
};
