//! The number that grows with each grant.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use super::invalid_input::{InputKind, InvalidInput};

/// A fencing token (C22): greater than those of all earlier grants of the same lock.
///
/// Send it with every write to the protected resource. The resource must refuse tokens that are older than the newest
/// it has seen (see [`Fence`](crate::Fence)). A token is a non-zero integer below 2<sup>53</sup>, so that it survives
/// JSON, JavaScript and Lua. It is constant for the life of a hold: extending keeps it.
///
/// A token can be stored and read again, printed, parsed and compared. It has no arithmetic: only a lock makes a
/// *new* token.
///
/// ```
/// use lock_core::FencingToken;
///
/// let stored: FencingToken = "1795251431457582".parse()?;
/// assert_eq!(stored.to_string(), "1795251431457582");
/// assert!("0".parse::<FencingToken>().is_err());
/// # Ok::<(), lock_core::InvalidInput>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The greatest possible token: 2<sup>53</sup> − 1.
    pub const MAX: Self = match NonZeroU64::new((1 << 53) - 1) {
        Some(max) => Self(max),
        None => unreachable!(),
    };

    /// Reads a token back from storage or the wire.
    ///
    /// # Errors
    /// [`InvalidInput`] if `value` is 0 or not below 2<sup>53</sup>.
    pub fn new(value: u64) -> Result<Self, InvalidInput> {
        // C22: non-zero, and below 2^53.
        match NonZeroU64::new(value) {
            Some(token) if Self(token) <= Self::MAX => Ok(Self(token)),
            _ => Err(refused(&value.to_string())),
        }
    }

    /// Returns the next greater token, for a fence that must refuse this one.
    pub(crate) fn successor(self) -> Self {
        Self(self.0.saturating_add(1)).min(Self::MAX)
    }

    /// Returns the token as a plain number, for a resource that stores it.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for FencingToken {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        // C23: parsed exactly as it was printed; no arithmetic makes a token.
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let value = digits.then(|| text.parse().ok()).flatten();
        let start = || text.chars().take(24).collect::<String>();
        Self::new(value.ok_or_else(|| refused(&start()))?)
    }
}

fn refused(value: &str) -> InvalidInput {
    let text = format!("invalid fencing token {value:?}: a token is an integer from 1 to 2^53 - 1");
    InvalidInput::new(InputKind::Token, text)
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({self})")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        Self::new(value).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c22_a_token_is_non_zero_and_below_two_to_the_53() {
        assert_eq!(FencingToken::MAX.get(), (1 << 53) - 1);
        assert!(FencingToken::new(1).is_ok());
        for bad in [0, 1 << 53, u64::MAX] {
            assert!(FencingToken::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn c23_a_token_is_printed_parsed_compared_and_serialised() {
        let token = FencingToken::new(1_795_251_431_457_582).expect("in range");
        assert_eq!(token.to_string().parse::<FencingToken>().expect("its own text"), token);
        assert!(token < FencingToken::MAX);
        for bad in ["", "0", "-1", "+1", " 1", "1.5", "1e3", "9007199254740992", "x"] {
            assert!(bad.parse::<FencingToken>().is_err(), "{bad:?}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn c23_a_token_survives_json() {
        let json = serde_json::to_string(&FencingToken::MAX).expect("serialises");
        assert_eq!(json, "9007199254740991");
        assert_eq!(serde_json::from_str::<FencingToken>(&json).expect("reads"), FencingToken::MAX);
        assert!(serde_json::from_str::<FencingToken>("0").is_err());
    }
}
