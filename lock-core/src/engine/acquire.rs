//! Acquiring: from a request to a hold, in the line of this client and in the queue of the server.

mod acquisition;
mod attaching;
mod in_line;
mod joint_holds;
mod local_queue;
mod progress;
mod server_place;
mod shared;
mod succession;
mod tries;
mod wait;

pub(crate) use self::acquisition::Acquisition;
pub(crate) use self::joint_holds::JointHolder;
pub(crate) use self::shared::{Acquired, Shared};
pub(crate) use self::succession::{Succession, is_worth_passing};
