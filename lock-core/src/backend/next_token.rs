//! The token of the next grant.

use std::time::Duration;

use crate::model::{FencingToken, InvalidInput};

/// Returns the token of the grant that follows `last`, made at `now`: time since 1970 on the **store's** clock.
///
/// The token is `last` plus one, or the time in microseconds if that is greater. So tokens grow when the clock steps
/// back. They also grow when the counter is lost, unless the clock is then behind the last token too (C22). Keep
/// `last` for as long as the store lasts: through release, expiry and eviction.
///
/// # Errors
/// [`InvalidInput`] if there is no token below 2<sup>53</sup>: the clock is beyond the year 2255.
///
/// ```
/// use std::time::Duration;
/// use lock_core::backend::next_token;
///
/// let first = next_token(None, Duration::from_secs(1_000))?;
/// assert_eq!(first.get(), 1_000_000_000);
/// // The clock stepped back.
/// assert_eq!(next_token(Some(first), Duration::ZERO)?.get(), 1_000_000_001);
/// # Ok::<(), lock_core::InvalidInput>(())
/// ```
pub fn next_token(last: Option<FencingToken>, now: Duration) -> Result<FencingToken, InvalidInput> {
    // C22: greater than all tokens before, also those from before the store lost its data.
    let counted = last.map_or(1, |last| last.get() + 1);
    FencingToken::new(counted.max(u64::try_from(now.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c22_tokens_end_at_the_greatest() {
        assert!(next_token(Some(FencingToken::MAX), Duration::ZERO).is_err());
        assert!(next_token(None, Duration::MAX).is_err());
        assert_eq!(next_token(None, Duration::from_micros(7)).map(FencingToken::get).ok(), Some(7));
    }
}
