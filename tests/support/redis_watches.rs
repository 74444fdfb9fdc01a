//! Watches of locks on Redis servers.

use std::time::Duration;

use leasehold::LockClient;
use leasehold::admin::{LockState, LockWatch};
use tokio::time::timeout;

use crate::support::LIMIT;

/// Returns a watch that never polls.
pub(crate) fn unpolled(client: &LockClient, name: &str) -> LockWatch {
    client.admin().watch(name).poll_every(Duration::MAX)
}

/// Waits until the watch shows a state.
pub(crate) async fn shows(
    watch: &mut LockWatch,
    what: &str,
    expected: impl Fn(&LockState) -> bool,
) {
    let shown = async { while !expected(&watch.next().await.expect("the watch goes on")) {} };
    timeout(LIMIT, shown).await.unwrap_or_else(|_| panic!("it was not told of {what}"));
}

pub(crate) fn holders(count: usize) -> impl Fn(&LockState) -> bool {
    move |state| state.holders.len() == count
}
