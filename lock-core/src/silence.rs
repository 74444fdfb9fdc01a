//! Tells a connection that swallows requests from a caller that changed its mind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts the replies that came over one connection, so that its silence is noticed.
///
/// A firewall or a dead peer swallows requests without a word. A caller that leaves after a long
/// silence, in which nobody else had a reply either, leaves a suspect connection behind; one that
/// leaves earlier has changed its mind.
#[derive(Debug, Default)]
pub struct Replies {
    count: AtomicU64,
}

impl Replies {
    /// A request is about to be sent. Unless its reply [came](Awaited::came), `suspect` is called
    /// when the value is dropped after `patience` without a reply to anyone.
    pub fn awaited<F: FnOnce()>(&self, patience: Duration, suspect: F) -> Awaited<'_, F> {
        let before = self.count.load(Ordering::Relaxed);
        Awaited { replies: self, before, sent: Instant::now(), patience, suspect: Some(suspect) }
    }
}

/// A reply that is awaited.
#[derive(Debug)]
#[must_use = "a reply that is not awaited is not missed"]
pub struct Awaited<'a, F: FnOnce()> {
    replies: &'a Replies,
    before: u64,
    sent: Instant,
    patience: Duration,
    suspect: Option<F>,
}

impl<F: FnOnce()> Awaited<'_, F> {
    /// The reply is here, or the driver's word that none will come.
    pub fn came(mut self) {
        self.replies.count.fetch_add(1, Ordering::Relaxed);
        self.suspect = None;
    }
}

impl<F: FnOnce()> Drop for Awaited<'_, F> {
    fn drop(&mut self) {
        let silent = self.replies.count.load(Ordering::Relaxed) == self.before;
        if let Some(suspect) = self.suspect.take()
            && silent
            && self.sent.elapsed() >= self.patience
        {
            suspect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn suspected(patience: Duration, during: impl FnOnce(&Replies)) -> bool {
        let (replies, suspected) = (Replies::default(), Cell::new(false));
        let awaited = replies.awaited(patience, || suspected.set(true));
        during(&replies);
        drop(awaited);
        suspected.get()
    }

    #[test]
    fn silence_is_suspect() {
        assert!(suspected(Duration::ZERO, |_| ()));
    }

    #[test]
    fn whoever_leaves_early_has_changed_their_mind() {
        assert!(!suspected(Duration::from_secs(60), |_| ()));
    }

    #[test]
    fn a_reply_to_another_breaks_the_silence() {
        let answered = |replies: &Replies| replies.awaited(Duration::ZERO, || ()).came();
        assert!(!suspected(Duration::ZERO, answered));
    }

    #[test]
    fn a_reply_that_came_is_not_missed() {
        let (replies, suspected) = (Replies::default(), Cell::new(false));
        replies.awaited(Duration::ZERO, || suspected.set(true)).came();
        assert!(!suspected.get());
    }
}
