//! The registration of a hold.

use std::ops::Deref;
use std::sync::Arc;

use super::Hold;
use super::renewer::Renewer;
use crate::model::LostReason;

/// A hold that is renewed until this is dropped. The drop ends the hold on this side before anything is sent (C11): no
/// renewal can follow, and its observers stop first.
#[derive(Debug)]
pub(crate) struct Held {
    hold: Arc<Hold>,
    renewer: Arc<Renewer>,
}

impl Held {
    /// Renews a hold from now on.
    pub(crate) fn new(hold: Hold, renewer: &Arc<Renewer>) -> Self {
        let hold = Arc::new(hold);
        renewer.register(hold.clone());
        Self { hold, renewer: renewer.clone() }
    }
}

impl Deref for Held {
    type Target = Arc<Hold>;

    fn deref(&self) -> &Arc<Hold> {
        &self.hold
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hold.end(LostReason::Released);
        self.renewer.unregister(&self.hold);
    }
}
