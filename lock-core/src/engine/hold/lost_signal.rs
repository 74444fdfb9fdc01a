//! The signal of a loss.

use std::fmt;
use std::sync::Arc;

use super::Hold;
use crate::model::LostReason;

/// A signal that a hold is over. It is sticky, cheap to clone, and may be awaited before and after.
#[derive(Clone)]
pub struct LostSignal {
    hold: Arc<Hold>,
}

impl LostSignal {
    pub(super) fn of(hold: Arc<Hold>) -> Self {
        Self { hold }
    }

    /// Waits until the hold is over, and returns the reason.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect; the signal can be awaited again.
    pub async fn wait(&self) -> LostReason {
        self.hold.ended().await
    }

    /// Returns true if the hold is over, by the clock.
    pub fn is_lost(&self) -> bool {
        self.reason().is_some()
    }

    /// Returns the reason of the hold's end; `None` while it is held. The clock alone decides, even if no task has
    /// run.
    pub fn reason(&self) -> Option<LostReason> {
        self.hold.lost_reason()
    }
}

impl fmt::Debug for LostSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LostSignal").field(&self.reason()).finish()
    }
}
