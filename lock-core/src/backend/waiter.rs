//! How a backend wakes one waiting claim.

use tokio::sync::mpsc;

use super::answers::Grant;

/// Wakes one waiting claim. A backend keeps it for as long as the claim is queued.
///
/// Waking never blocks and may be repeated: a wake-up that finds an earlier one still unread is
/// dropped, since the waiter will look at the server anyway.
#[derive(Clone, Debug)]
pub struct WaiterHandle(mpsc::Sender<WaiterEvent>);

/// What a waiter was told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaiterEvent {
    Granted(Grant),
    TryAgain,
}

impl WaiterHandle {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<WaiterEvent>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }

    /// Tells the waiter that it holds the lock.
    ///
    /// The grant says when it was made on the server's clock, as does the [`Contention`] of the
    /// attempt that queued the claim; a grant that does not is proven by a further attempt.
    ///
    /// [`Contention`]: crate::Contention
    pub fn granted(&self, grant: Grant) {
        let _ = self.0.try_send(WaiterEvent::Granted(grant));
    }

    /// Tells the waiter to look again.
    pub fn try_again(&self) {
        let _ = self.0.try_send(WaiterEvent::TryAgain);
    }

    /// Whether the waiter has gone, so that nobody would hear.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}
