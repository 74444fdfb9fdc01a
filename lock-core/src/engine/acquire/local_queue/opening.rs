//! The number of requests that a line may have in flight.

/// Most requests of a line in flight together.
const MOST: usize = 100;

/// Decides how many claims of a line ask the server at a time (C26).
///
/// ```text
///   open: `reach` claims ask together ── "busy" ──▶ closed: the head alone asks
///                                    ◀── a grant ──
/// ```
///
/// A line begins open, since nothing is known. Grants without a wait double the reach. A refusal after a wait takes the
/// reach back to the head: a lock that others want too is then asked for by one claim at a time.
#[derive(Debug)]
pub(super) struct Opening {
    is_open: bool,
    reach: usize,
    /// True once a claim of the line was granted after a wait.
    has_waited: bool,
}

impl Opening {
    pub(super) fn new() -> Self {
        Self { is_open: true, reach: MOST, has_waited: false }
    }

    /// Returns the number of claims that may ask together, if their kind allows it.
    pub(super) fn width(&self) -> usize {
        if self.is_open { self.reach } else { 1 }
    }

    /// Notes a grant that allows others beside it, after a wait or at once.
    pub(super) fn granted(&mut self, after_wait: bool) {
        self.is_open = true;
        if after_wait {
            self.has_waited = true;
        } else {
            self.reach = MOST.min(self.reach * 2);
        }
    }

    /// Notes that the server granted nothing to a claim that asked beside the head.
    pub(super) fn refused(&mut self) {
        self.close();
        if self.has_waited {
            self.reach = 1;
        }
    }

    /// Notes that the lock is busy, or held by a claim that allows no other beside it.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }
}
