//! How long a session may be silent until its hold is given up, and for how long the next holder waits for that.

use std::time::Duration;

/// How long the server may take to answer what is asked of a hold.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How often the server is asked for a sign of life. A connection that is cut is seen at once; one that
/// has gone silent is seen by this.
pub(super) const PING_EVERY: Duration = Duration::from_secs(1);

/// How long after the end of its session a holder may believe that it holds the lock: until it notices the silence, and
/// a moment more.
pub(crate) const SESSION_GRACE: Duration =
    PING_EVERY.saturating_add(ANSWER_LIMIT).saturating_add(Duration::from_millis(500));
