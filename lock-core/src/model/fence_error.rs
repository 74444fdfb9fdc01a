//! The reason why a fence refused a token.

use std::error::Error;
use std::fmt;

use super::{BackendError, FencingToken};

/// A token that is this far behind is that of a holder that was paused for a minute, or comes from another store.
/// Tokens are times in microseconds, or count on from such a time.
const OTHER_STORE: u64 = 60_000_000;

/// The reason why a fence refused a token. The text has the whole cause, in one line.
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
    /// Returns true if the caller is not the holder any more: a retry will not help.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }
}

impl fmt::Display for FenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { token, seen } => {
                write!(f, "token {token} is stale: the resource has seen {seen}")?;
                match seen.get().saturating_sub(token.get()) > OTHER_STORE {
                    true => f.write_str(
                        ": a later holder has written, or the resource has seen tokens of another store",
                    ),
                    false => Ok(()),
                }
            }
            Self::Backend(error) => write!(f, "cannot ask the fence: {error}"),
        }
    }
}

/// `Display` has the whole cause, so there is no source.
impl Error for FenceError {}

impl From<BackendError> for FenceError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c24_a_token_far_below_tells_of_another_store() {
        let token = |value| FencingToken::new(value).expect("a token");
        let told = |token, seen| FenceError::Stale { token, seen }.to_string();
        let seen = token(1_795_251_431_457_000);
        for behind in [38, 1_795_251_371_456_999] {
            assert!(told(token(behind), seen).ends_with("tokens of another store"));
        }
        assert!(!told(token(1_795_251_371_457_000), seen).contains("another store"));
        assert!(!told(token(6), token(7)).contains("another store"));
    }
}
