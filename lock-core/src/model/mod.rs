//! The words of the contract: plain values that neither wait nor ask a server.

mod backend_error;
mod capabilities;
mod claim;
mod clock;
mod contention;
mod drift;
mod error;
mod fence_error;
mod finding;
mod lease;
mod lost_reason;
mod name;
mod owner;
mod readable;
mod request;
mod state;
mod token;
mod ttl;

pub use self::backend_error::{BackendError, BoxError, Outcome};
pub use self::capabilities::{Capabilities, Order, Renewals, TokenDurability, Wakeup};
pub use self::claim::{Claim, Renewal};
pub use self::clock::{Clock, FakeClock, Moment, SystemClock};
pub use self::contention::{Contention, ServerTime};
pub use self::drift::Drift;
pub use self::error::LockError;
pub use self::fence_error::FenceError;
pub use self::finding::{Finding, Health};
pub use self::lease::{InvalidLease, Lease};
pub use self::lost_reason::LostReason;
pub use self::name::{InvalidLabel, InvalidName, Label, LockName, MAX_LABEL_BYTES, MAX_NAME_BYTES};
pub use self::owner::{InvalidOwner, OwnerId};
pub(crate) use self::request::Listener;
pub use self::request::{LockRequest, Wait};
pub use self::state::{Holder, LockState};
pub use self::token::{FencingToken, InvalidToken};
pub use self::ttl::{InvalidTtl, Ttl};
