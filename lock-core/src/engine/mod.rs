//! Policy, written once for all backends, in four rooms. No room names a type of one above it.
//!
//! ```text
//!   acquire      from a request to a hold, and from one task of a client to the next
//!     │    └──────────┐
//!   hold          give_back       a hold is renewed until its end; what is left is given back
//!     └──────┬────────┘
//!   client       the store, and how it is asked
//! ```

mod acquire;
mod client;
mod give_back;
mod hold;

pub(crate) use self::acquire::{
    Acquired, Acquisition, JointHolder, Shared, Succession, is_worth_passing,
};
pub use self::client::ClientOptions;
pub(crate) use self::client::Store;
pub(crate) use self::give_back::OwnedClaim;
pub use self::hold::LostSignal;
pub(crate) use self::hold::{Hold, while_held};
