//! Observes an election without taking part (C40).

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, Stream};

use super::watch::LockWatch;
use crate::model::{FencingToken, Holder, Label, LockError, LockState, OwnerId};

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Leader {
    /// Its term: greater than that of every leader before it.
    pub term: FencingToken,
    /// The leader's own label.
    pub label: Label,
    /// The time on the server's wall clock since when it leads, if it is known: see
    /// [`Holder::since`](crate::Holder::since).
    pub since: Option<SystemTime>,
}

impl Leader {
    /// Returns the leader in this state. A holder that was no candidate is no leader.
    pub(super) fn of(state: LockState) -> Option<Self> {
        let shows_candidate =
            |holder: &Holder| holder.owner.as_deref().is_some_and(OwnerId::shows_candidate);
        let holder = state.holders.into_iter().next().filter(shows_candidate)?;
        Some(Self { term: holder.token?, label: holder.label, since: holder.since })
    }
}

/// A stream of leaders: the present one at once, then each change.
///
/// - It **never shows a smaller term** than before, even if the store answers out of order, as a store with a lagging
///   replica does.
/// - It **never misses the last change**. Leaders that come and go between two looks are not shown.
/// - All observers of an election see its leaders in the same order, since terms grow; some may see leaders
///   that others miss.
///
/// An item may be outdated when it is shown, and a leader that is no longer shown may still believe that it leads:
/// let the resource check the term of each write.
///
/// A store that lost its data may begin with smaller terms. They are not shown until they are greater. The delay of
/// changes and the behaviour in an outage are those of a [`LockWatch`].
#[derive(Debug)]
#[must_use = "an observer does nothing until it is asked"]
pub struct Observer {
    watch: LockWatch,
    filter: Filter,
}

impl Observer {
    pub(super) fn new(watch: LockWatch) -> Self {
        Self { watch, filter: Filter::default() }
    }

    /// Sets the interval of looks without news of a change; default 1 s, from 10 ms to a day.
    pub fn poll_every(self, span: Duration) -> Self {
        Self { watch: self.watch.poll_every(span), ..self }
    }

    /// Calls `listener` once for each outage of the server, while [`next`](Self::next) waits for its end. It
    /// must not block.
    pub fn on_outage(self, listener: impl Fn(&LockError) + Send + Sync + 'static) -> Self {
        Self { watch: self.watch.on_outage(listener), ..self }
    }

    /// Waits for the next change of the leader: at once the first time. `None` means that nobody leads.
    ///
    /// # Errors
    /// As [`LockWatch::next`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no change: the next call shows it.
    pub async fn next(&mut self) -> Result<Option<Leader>, LockError> {
        loop {
            let leader = Leader::of(self.watch.next().await?);
            if self.filter.shows(&leader) {
                return Ok(leader);
            }
        }
    }

    /// Returns the same as a [`Stream`], which ends with the error of a shutdown of the client.
    pub fn into_stream(
        self,
    ) -> Pin<Box<dyn Stream<Item = Result<Option<Leader>, LockError>> + Send>> {
        Box::pin(stream::unfold(Some(self), async |observer| {
            let mut observer = observer?;
            let item = observer.next().await;
            let goes_on = !matches!(item, Err(LockError::Closed { .. }));
            Some((item, goes_on.then_some(observer)))
        }))
    }
}

/// The last leader shown by an observer.
#[derive(Debug, Default)]
struct Filter {
    greatest: Option<FencingToken>,
    /// The term that was shown last; `Some(None)` if nobody led then, and `None` before the first item.
    last: Option<Option<FencingToken>>,
}

impl Filter {
    /// Records `leader`; returns true if it differs from the last one shown.
    fn shows(&mut self, leader: &Option<Leader>) -> bool {
        let term = leader.as_ref().map(|leader| leader.term);
        // C40: an answer that was overtaken. The next look finds the present leader.
        if term.is_some() && term < self.greatest {
            return false;
        }
        self.greatest = self.greatest.max(term);
        // The store may later show more about a leader that has just been elected, such as the time of its election.
        self.last.replace(term) != Some(term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(term: u64) -> Option<Leader> {
        let term = FencingToken::new(term).expect("a token");
        Some(Leader { term, label: Label::default(), since: None })
    }

    #[test]
    fn c40_a_leader_of_whom_more_is_known_later_is_shown_once() {
        let mut filter = Filter::default();
        let mut elected = leader(5);
        assert!(filter.shows(&elected));
        elected.as_mut().expect("a leader").since = Some(SystemTime::UNIX_EPOCH);
        assert!(!filter.shows(&elected));
    }

    #[test]
    fn c40_no_smaller_term_is_shown_and_nothing_twice() {
        let mut filter = Filter::default();
        for (seen, shown) in [
            (None, true),
            (None, false),
            (leader(5), true),
            (leader(5), false),
            (leader(4), false),
            (None, true),
            (leader(4), false),
            (leader(5), true),
            (leader(9), true),
            (leader(5), false),
            (None, true),
        ] {
            assert_eq!(filter.shows(&seen), shown, "{seen:?}");
        }
    }
}
