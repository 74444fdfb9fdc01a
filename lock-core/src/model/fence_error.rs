//! Why a fence did not let a token pass.

use super::{BackendError, FencingToken};

/// Why a fence did not let a token pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A greater token was seen: another holder has been here since.
    #[error("token {token} is stale: the resource has seen {seen}")]
    Stale {
        /// The token that was shown.
        token: FencingToken,
        /// The greatest token seen.
        seen: FencingToken,
    },
    /// The resource could not be asked.
    #[error("cannot ask the fence")]
    Backend(#[from] BackendError),
}

impl FenceError {
    /// Whether the caller is not the holder any more: a retry will not help.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }
}
