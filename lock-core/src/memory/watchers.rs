//! Observers of the locks of this process.

use foldhash::HashMap;

use futures_util::stream;
use tokio::sync::watch;

use crate::backend::Changes;
use crate::model::LockName;

/// The observers of each lock, which receive its changes (C44).
#[derive(Debug, Default)]
pub(super) struct Watchers {
    by_name: HashMap<LockName, watch::Sender<()>>,
}

impl Watchers {
    /// Adds an observer, which receives the changes of a lock from now on.
    pub(super) fn add(&mut self, name: &LockName) -> Changes {
        self.by_name.retain(|_, watchers| watchers.receiver_count() > 0);
        let told =
            self.by_name.entry(name.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        Box::pin(stream::unfold(told, async |mut told| {
            told.changed().await.ok()?;
            Some(((), told))
        }))
    }

    /// Signals that a lock may have changed.
    pub(super) fn tell(&self, name: &LockName) {
        if let Some(watchers) = self.by_name.get(name) {
            watchers.send_replace(());
        }
    }
}
