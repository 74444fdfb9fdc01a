//! The traits of a backend, and helpers for its authors.
//!
//! A backend implements [`DistributedLock`] for a type that is cheap to clone. It also implements those of
//! [`LockAdmin`], [`ReservesTokens`] and [`RecordsRuns`] that its store can do. The rest of this
//! module is shared by several backends: the [bounds](self) of the contract that a server must know,
//! [`next_token()`], [`Notifications`] for servers that push, [`ReplyMonitor`] for connections that may swallow
//! requests, [`Batches`] for requests that are sent together, [`Register`] for stores that compare and swap,
//! [`LockValue`] and [`Withdrawals`] for stores that keep their own state, [`UrlParameters`] and [`Servers`] for stores
//! that have a URL, [`Certificates`] for stores that speak TLS, [`Login`] for
//! credentials that change, [`Sight`] for waiters that died in a queue, [`probe()`] for doctors.
//! [`Prefixed`] puts a prefix before the names of another backend.
//!
//! Applications need nothing of this module: they hold a [`LockClient`](crate::LockClient).

mod admin;
mod admission;
mod answers;
mod arc;
mod batches;
mod bounds;
mod certificates;
mod credentials;
mod distributed_lock;
mod ext;
mod extensions;
mod lock_value;
mod next_token;
mod notifications;
mod prefixed;
mod probe;
mod register;
mod reply_monitor;
mod request_error;
mod servers;
mod sights;
mod url_parameters;
mod waiter;
mod withdrawals;

pub use async_trait::async_trait;

pub use self::admin::{Changes, LockAdmin, Pages, evicted};
pub use self::admission::Admission;
pub use self::answers::{Attempt, Extension, Grant, Recording, Release, Reserved, TokenRange};
pub use self::batches::Batches;
pub use self::bounds::{
    ClockLimit, FALLBACK_POLL, UNCLAIMED_GRANT_TTL, WAITER_LIVENESS, WITHDRAWAL_REMEMBERED,
};
pub use self::certificates::{CertificateError, Certificates, Pem, ReadCertificates};
pub use self::credentials::{
    CredentialError, CredentialProvider, Credentials, Login, NO_CREDENTIALS,
};
pub use self::distributed_lock::{DistributedLock, LossWatch};
pub use self::ext::DistributedLockExt;
pub use self::extensions::{KeepsFences, RecordsRuns, ReservesTokens};
pub use self::lock_value::{ClockReading, Held, HoldRequest, LockValue};
pub use self::next_token::next_token;
pub use self::notifications::{NotificationTransport, Notifications};
pub use self::prefixed::Prefixed;
pub use self::probe::{PROBE, probe, take_and_give_back};
pub use self::register::Register;
pub use self::reply_monitor::{PendingReply, ReplyMonitor};
pub use self::request_error::RequestError;
pub use self::servers::Servers;
pub use self::sights::{Sight, Sights, UNTAKEN_LASTS};
pub use self::url_parameters::UrlParameters;
pub use self::waiter::{WaiterEvent, WaiterEvents, WaiterHandle};
pub use self::withdrawals::Withdrawals;
pub use crate::model::{Claim, Record, Renewal, Reservation, ServerTime};
