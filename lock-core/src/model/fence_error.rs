//! Why a fence did not let a token pass.

use std::error::Error;
use std::fmt;

use super::{BackendError, FencingToken};

/// Why a fence did not let a token pass. The text has the whole cause, in one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum FenceError {
    /// A greater token was seen: another holder has been here since.
    Stale {
        /// The token that was shown.
        token: FencingToken,
        /// The greatest token seen.
        seen: FencingToken,
    },
    /// The resource could not be asked.
    Backend(BackendError),
}

impl FenceError {
    /// Whether the caller is not the holder any more: a retry will not help.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }
}

impl fmt::Display for FenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { token, seen } => {
                write!(f, "token {token} is stale: the resource has seen {seen}")
            }
            Self::Backend(error) => write!(f, "cannot ask the fence: {error}"),
        }
    }
}

/// The text of each has its cause.
impl Error for FenceError {}

impl From<BackendError> for FenceError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}
