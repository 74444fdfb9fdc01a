//! Signals observers of a lock its changes (C44).

use std::sync::Arc;

use futures_util::stream;
use lock_core::backend::{Changes, Notifications};

use crate::wire::key_events::{KeyWatch, News};
use crate::wire::push::Subscriber;

/// Returns the signals of the watch. It shares the connection for grants, and opens it if there is none.
pub(crate) fn changes(push: Arc<Notifications<Subscriber>>, watch: KeyWatch) -> Changes {
    Box::pin(stream::unfold((push, watch), async |(push, mut watch)| {
        next(&push, &mut watch).await.map(|()| ((), (push, watch)))
    }))
}

/// Waits for a change; `None` if no signals will come.
async fn next(push: &Notifications<Subscriber>, watch: &mut KeyWatch) -> Option<()> {
    loop {
        match watch.next().await? {
            News::Change => return Some(()),
            News::NoConnection => push.open().await.ok()?,
        }
    }
}
