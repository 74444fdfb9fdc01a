//! The words of the contract: plain values that neither wait nor ask a server.

mod at_least;
mod backend_error;
mod capabilities;
mod claim;
mod clock;
mod contention;
mod drift;
mod error;
mod fence_error;
mod finding;
mod kind;
mod lease;
mod lost_reason;
mod name;
mod owner;
mod readable;
mod record;
mod reentrance;
mod request;
mod state;
mod suspend;
mod token;
mod ttl;
mod whom;

pub(crate) use self::at_least::AtLeast;
pub use self::backend_error::{BackendError, BoxError, Outcome};
pub use self::capabilities::{Capabilities, Kinds, Order, Renewals, TokenDurability, Wakeup};
pub use self::claim::{Claim, Renewal, Reservation};
pub use self::clock::{Clock, FakeClock, Moment, SystemClock};
pub use self::contention::{Contention, ServerTime};
pub use self::drift::Drift;
pub use self::error::LockError;
pub use self::fence_error::FenceError;
pub use self::finding::{Finding, Health};
pub use self::kind::{InvalidPermits, Kind, MAX_PERMITS, Permits, Slots};
pub use self::lease::{InvalidLease, Lease};
pub use self::lost_reason::LostReason;
pub use self::name::{
    InvalidLabel, InvalidName, InvalidOccurrence, Label, LockName, MAX_LABEL_BYTES, MAX_NAME_BYTES,
    Occurrence,
};
pub use self::owner::{InvalidOwner, OwnerId};
pub use self::readable::Readable;
pub use self::record::Record;
pub use self::reentrance::Reentrance;
pub(crate) use self::request::Listener;
pub use self::request::{LockRequest, Wait};
pub use self::state::{Holder, LockState};
pub use self::token::{FencingToken, InvalidToken};
pub use self::ttl::{InvalidTtl, Ttl};
pub use self::whom::Whom;
