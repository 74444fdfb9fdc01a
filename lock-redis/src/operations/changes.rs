//! Signals observers of a lock its changes (C44).

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use lock_core::LockName;
use lock_core::backend::{Changes, Notifications};
use tokio::time::sleep;

use crate::protocol::keys::Keys;
use crate::topology::Topology;
use crate::wire::key_events::{KeyWatch, News};
use crate::wire::node::Node;
use crate::wire::push::Subscriber;

/// Interval of looks for another server of the lock.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

type Push = Arc<Notifications<Subscriber>>;

/// Returns the signals of changes of a lock. They share the connection for grants, and open it if there is none.
pub(crate) fn changes(server: Arc<Topology>, name: LockName) -> Changes {
    let signals = Signals { server, name, heard: None };
    Box::pin(stream::unfold(signals, async |mut signals| {
        signals.next().await.map(|()| ((), signals))
    }))
}

struct Signals {
    server: Arc<Topology>,
    name: LockName,
    /// The connection to the lock's server, and the watch of its events.
    heard: Option<(Push, KeyWatch)>,
}

impl Signals {
    /// Waits for a change; `None` if no signals will come. The lock's server may be replaced, or hand over the lock's
    /// slot.
    async fn next(&mut self) -> Option<()> {
        loop {
            let (server, name) = (&self.server, &self.name);
            let told = match &mut self.heard {
                None => None,
                Some((push, watch)) => tokio::select! {
                    biased;
                    told = told(push, watch) => told,
                    Some(_) = another(server, name, Some(push)) => None,
                },
            };
            if told.is_some() {
                return told;
            }
            let node = another(server, name, self.heard.as_ref().map(|(push, _)| push)).await?;
            self.heard = Some((node.push.clone(), node.key_events.watch(name)));
        }
    }
}

/// Waits for a change; `None` if the server refuses to send signals, as one that was replaced does.
async fn told(push: &Push, watch: &mut KeyWatch) -> Option<()> {
    loop {
        match watch.next().await? {
            News::Change => return Some(()),
            News::NoConnection => push.open().await.ok()?,
        }
    }
}

/// Waits until another server than that of `push` has the lock; `None` if there is only one.
async fn another(server: &Topology, name: &LockName, push: Option<&Push>) -> Option<Arc<Node>> {
    loop {
        match server.node_of(&Keys::new(name).lock()) {
            Ok(node) if push.is_none_or(|push| !Arc::ptr_eq(push, &node.push)) => {
                return Some(node);
            }
            _ if matches!(server, Topology::One(_)) => return None,
            Ok(_) | Err(_) => sleep(LOOK_INTERVAL).await,
        }
    }
}
