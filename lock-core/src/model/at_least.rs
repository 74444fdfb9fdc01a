//! The span for which a hold keeps others out, however early its work ends.

use tokio::time::Instant;

use super::{Drift, Ttl};

/// A hold keeps others out for a span from its start, however early its work ends (C41).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtLeast {
    began: Instant,
    span: Ttl,
    pub(crate) drift: Drift,
}

impl AtLeast {
    /// Begins the span now.
    pub(crate) fn new(span: Ttl, drift: Drift) -> Self {
        Self { began: Instant::now(), span, drift }
    }

    /// Returns the time for which the server must still keep others out; `None` if the span is over.
    ///
    /// The holder's clock may run faster than the server's, so less time may have passed on the server (C5). It stops
    /// in suspend, which can only make the remaining time longer.
    pub(crate) fn left(&self) -> Option<Ttl> {
        let certain = self.drift.validity(self.began.elapsed());
        let left = self.span.as_duration().checked_sub(certain).filter(|left| !left.is_zero())?;
        Ttl::new(left.max(Ttl::MIN.as_duration())).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn c41_what_is_left_is_never_less_than_by_a_slower_clock() {
        let span = Ttl::new(MINUTE).expect("a TTL");
        let at_least = AtLeast::new(span, Drift::default());
        assert_eq!(at_least.left().map(Ttl::as_duration), Some(MINUTE));
        tokio::time::advance(MINUTE / 2).await;
        // Half a minute, 1 % of the half minute that has passed, and 2 ms.
        assert_eq!(at_least.left().map(Ttl::as_millis), Some(30_302));
        tokio::time::advance(MINUTE / 2).await;
        assert!(at_least.left().is_some(), "by the slower clock it is not over");
        tokio::time::advance(MINUTE / 50).await;
        assert!(at_least.left().is_none());
    }
}
