//! The side of the resource: refuses tokens that are older than the newest seen.

use std::fmt;

use async_trait::async_trait;

use crate::model::{FenceError, FencingToken};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Counts the tokens that fences refused. It has no label: a fence knows no lock.
#[cfg(feature = "metrics")]
pub(crate) const STALE_TOKENS: &str = "leasehold_stale_tokens_total";

/// The high-water mark of a resource (C24): the greatest token that it has seen.
///
/// A lock can be lost before its holder knows. The fence makes that harmless: it belongs to the **resource**, and
/// refuses tokens that are smaller than the greatest it has seen.
///
/// # Advance, then read, then write
/// A holder first advances the fence, then reads, then writes. Each write is checked against the fence in the same
/// atomic step. A check of the write alone loses updates: a stale holder may write after the next holder's read and
/// before its first write, when the fence has not seen the new token yet.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{Fence, FenceError, LockClient, MemoryFence, MemoryBackend};
///
/// let (locks, fence) = (LockClient::new(MemoryBackend::new()), MemoryFence::new());
/// let stale = locks.acquire("stock").await?.detach()?;
/// // … the holder is paused, its lease ends, another takes over:
/// # locks.attach(stale.clone()).await?.release().await?;
/// let holder = locks.acquire("stock").await?;
/// fence.advance(holder.token()).await?;
///
/// let refused = fence.advance(stale.token()).await;
/// assert!(matches!(refused, Err(FenceError::Stale { .. })));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Fence: fmt::Debug + Send + Sync + 'static {
    /// Accepts `token` if it is equal to or greater than the greatest seen, and remembers it.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater one was seen: the caller is not the holder any more.
    /// - [`FenceError::Backend`] if the resource could not be asked.
    ///
    /// # Cancel safety
    /// If the future is dropped the fence may or may not have been advanced; advancing again with
    /// the same token does no harm.
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError>;

    /// Returns the greatest token seen; `None` if there was none.
    ///
    /// # Errors
    /// [`FenceError::Backend`] if the resource could not be asked.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn seen(&self) -> Result<Option<FencingToken>, FenceError>;

    /// Accepts `token` as [`advance`](Self::advance) does, but does not remember it (C35). It is for readers under a
    /// shared hold.
    ///
    /// A reader first reads, then checks. If its token passes, no later writer has advanced the fence, so all reads
    /// are of one state. If it does not pass, the reads may be of different states: acquire the lock anew, and read
    /// again.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_core::{Fence, LockClient, LockRequest, MemoryBackend, MemoryFence};
    /// # let (locks, fence) = (LockClient::new(MemoryBackend::new()), MemoryFence::new());
    /// let reader = locks.acquire(LockRequest::new("catalogue").shared()).await?;
    /// // … reads; meanwhile its lease ends, and a writer begins:
    /// # locks.admin().evict("catalogue").await?;
    /// let writer = locks.acquire("catalogue").await?;
    /// fence.advance(writer.token()).await?;
    /// assert!(fence.check(reader.token()).await.is_err());
    /// # Ok(()) }
    /// ```
    async fn check(&self, token: FencingToken) -> Result<(), FenceError> {
        match self.seen().await? {
            Some(seen) if seen > token => Err(FenceError::stale(token, seen)),
            _ => Ok(()),
        }
    }
}

impl FenceError {
    /// Makes the error of a fence that has seen `seen` and refuses `token`. The metrics count it, so a fence calls
    /// this once for each refused token.
    pub fn stale(token: FencingToken, seen: FencingToken) -> Self {
        #[cfg(feature = "metrics")]
        metrics::counter!(STALE_TOKENS).increment(1);
        Self::Stale { token, seen }
    }
}

/// A fence for a resource of one process, and for tests.
#[derive(Debug, Default)]
pub struct MemoryFence {
    seen: AtomicU64,
}

impl MemoryFence {
    /// A fence that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Fence for MemoryFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        // C24: the check and the update are one atomic step.
        let seen = self.seen.fetch_max(token.get(), Ordering::AcqRel);
        match FencingToken::new(seen) {
            Ok(seen) if seen > token => Err(FenceError::stale(token, seen)),
            _ => Ok(()),
        }
    }

    async fn seen(&self) -> Result<Option<FencingToken>, FenceError> {
        // Zero is no token: none was seen.
        Ok(FencingToken::new(self.seen.load(Ordering::Acquire)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn c24_a_fence_accepts_equal_and_greater_tokens_only() {
        let fence = MemoryFence::new();
        let token = |value| FencingToken::new(value).expect("a token");
        for accepted in [5, 5, 7] {
            fence.advance(token(accepted)).await.expect("not stale");
        }
        let refused = fence.advance(token(6)).await;
        assert!(matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == token(7)));
    }

    #[tokio::test]
    async fn c35_a_check_remembers_nothing() {
        let fence = MemoryFence::new();
        let token = |value| FencingToken::new(value).expect("a token");
        fence.check(token(9)).await.expect("nothing was seen");
        fence.advance(token(5)).await.expect("a check does not advance");
        fence.check(token(5)).await.expect("equal passes");
        let refused = fence.check(token(4)).await;
        assert!(matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == token(5)));
    }

    /// S4: two holders each advance, read, and write n + 1, in every possible interleaving. `ADVANCE_FIRST` is the
    /// order of the contract; the other order checks only the write.
    fn lost_updates(order: [Step; 3]) -> usize {
        let schedules = (0u32..64).filter(|bits| bits.count_ones() == 3);
        schedules.filter(|bits| !survives(*bits, order)).count()
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        Advance,
        Read,
        Write,
    }

    /// Returns true if every acknowledged increment is in the final value.
    fn survives(schedule: u32, order: [Step; 3]) -> bool {
        let (mut seen, mut value, mut acknowledged) = (0, 0, 0);
        let (mut at, mut read, mut refused) = ([0; 2], [0; 2], [false; 2]);
        for turn in 0..6 {
            let holder = (schedule >> turn & 1) as usize;
            let step = order[at[holder]];
            at[holder] += 1;
            // Holder 1 has the greater token.
            let token = holder + 1;
            match step {
                _ if refused[holder] => {}
                Step::Read => read[holder] = value,
                Step::Advance | Step::Write if token < seen => refused[holder] = true,
                Step::Advance => seen = token,
                Step::Write => {
                    (seen, value, acknowledged) = (token, read[holder] + 1, acknowledged + 1);
                }
            }
        }
        value == acknowledged
    }

    #[test]
    fn c25_advance_then_read_then_write_loses_nothing() {
        assert_eq!(lost_updates([Step::Advance, Step::Read, Step::Write]), 0);
    }

    #[test]
    fn c25_reading_before_advancing_loses_updates() {
        assert!(lost_updates([Step::Read, Step::Advance, Step::Write]) > 0);
    }
}
