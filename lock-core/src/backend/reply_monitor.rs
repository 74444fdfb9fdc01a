//! Distinguishes a connection that swallows requests from a caller that gave up early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts the replies that came over one connection, so that its silence is noticed.
///
/// A firewall or a dead peer swallows requests in silence (C17). If a caller leaves after a long time in which no
/// request got a reply, the connection is suspect. If the caller leaves earlier, it only changed its mind.
#[derive(Debug, Default)]
pub struct ReplyMonitor {
    count: AtomicU64,
}

impl ReplyMonitor {
    /// Starts to wait for the reply to a request; call it before the request is sent. If the returned value is
    /// dropped before [`received`](PendingReply::received), and no request got a reply for `idle_timeout`, then
    /// `on_silence` is called.
    pub fn request_sent<F: FnOnce()>(
        &self,
        idle_timeout: Duration,
        on_silence: F,
    ) -> PendingReply<'_, F> {
        let before = self.count.load(Ordering::Relaxed);
        let (sent, on_silence) = (Instant::now(), Some(on_silence));
        PendingReply { monitor: self, before, sent, idle_timeout, on_silence }
    }
}

/// A request without a reply yet.
#[derive(Debug)]
#[must_use = "keep this until the reply arrives: dropping it disables the check"]
pub struct PendingReply<'a, F: FnOnce()> {
    monitor: &'a ReplyMonitor,
    before: u64,
    sent: Instant,
    idle_timeout: Duration,
    on_silence: Option<F>,
}

impl<F: FnOnce()> PendingReply<'_, F> {
    /// Call this when the reply has come, or when the driver reports that none will come.
    pub fn received(mut self) {
        self.monitor.count.fetch_add(1, Ordering::Relaxed);
        self.on_silence = None;
    }
}

impl<F: FnOnce()> Drop for PendingReply<'_, F> {
    fn drop(&mut self) {
        let silent = self.monitor.count.load(Ordering::Relaxed) == self.before;
        if let Some(on_silence) = self.on_silence.take()
            && silent
            && self.sent.elapsed() >= self.idle_timeout
        {
            on_silence();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn is_suspected(idle_timeout: Duration, during: impl FnOnce(&ReplyMonitor)) -> bool {
        let (monitor, suspected) = (ReplyMonitor::default(), Cell::new(false));
        let reply = monitor.request_sent(idle_timeout, || suspected.set(true));
        during(&monitor);
        drop(reply);
        suspected.get()
    }

    #[test]
    fn c17_silence_is_suspect() {
        assert!(is_suspected(Duration::ZERO, |_| ()));
    }

    #[test]
    fn c17_a_caller_that_leaves_early_has_changed_its_mind() {
        assert!(!is_suspected(Duration::from_secs(60), |_| ()));
    }

    #[test]
    fn c17_a_reply_to_another_breaks_the_silence() {
        let answered = |monitor: &ReplyMonitor| {
            monitor.request_sent(Duration::ZERO, || ()).received();
        };
        assert!(!is_suspected(Duration::ZERO, answered));
    }

    #[test]
    fn c17_a_reply_that_was_received_is_not_missed() {
        let (monitor, suspected) = (ReplyMonitor::default(), Cell::new(false));
        monitor.request_sent(Duration::ZERO, || suspected.set(true)).received();
        assert!(!suspected.get());
    }
}
