//! Work that runs for as long as a lock is held.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::model::LockError;

/// Runs `work` until it ends. If `lost` reports a loss first, the work is dropped (C13).
///
/// `check` asks the clock if the hold is over. It is called before each step, since after a pause the work may be
/// polled first.
pub(crate) async fn while_held<F: Future>(
    work: F,
    lost: impl Future<Output = LockError>,
    check: impl Fn() -> Result<(), LockError>,
) -> Result<F::Output, LockError> {
    let (mut work, mut lost) = (pin!(work), pin!(lost));
    poll_fn(|context| {
        check()?;
        match lost.as_mut().poll(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => work.as_mut().poll(context).map(Ok),
        }
    })
    .await
}
