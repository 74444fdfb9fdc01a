//! Policy, written once for all backends.
//!
//! ```text
//!   Acquisition ── in line ─────── wait ── retry      from a request to a hold
//!                └ tries ┘                           where it does not wait
//!   Renewer ────── Hold                              while it is held
//!   JointHolds                                       shared by several guards
//!   Succession                                       from one task of a client to the next
//!   Janitor                                          what is given back
//!   Shared                                           owns all of it for the clones of a client
//! ```

mod acquisition;
mod attaching;
mod claim_state;
mod containment;
mod held;
mod held_labels;
mod hold;
mod in_line;
mod janitor;
mod joint_holds;
mod local_queue;
mod lost_signal;
#[cfg(feature = "metrics")]
mod meter;
mod options;
mod outage;
mod owned_claim;
mod parts;
mod process;
mod progress;
mod recording;
mod registry;
mod renewer;
mod retry;
mod schedule;
mod server_place;
mod shared;
mod store;
mod succession;
mod telemetry;
mod tries;
mod wait;
mod work;

pub(crate) use self::acquisition::Acquisition;
pub(crate) use self::hold::Hold;
pub(crate) use self::joint_holds::JointHolder;
pub use self::lost_signal::LostSignal;
pub use self::options::ClientOptions;
pub(crate) use self::owned_claim::OwnedClaim;
pub(crate) use self::shared::{Acquired, Shared};
pub(crate) use self::store::Store;
pub(crate) use self::succession::{Succession, is_worth_passing};
pub(crate) use self::work::while_held;
