//! One stream on which the server reports deleted keys to this client.
//!
//! Watches are opened at the current revision: etcd serves a watch that starts in the past by a slow loop. A read
//! after the opening finds earlier events. The library does not resume the stream: when it breaks, all watches are
//! opened again, and all keys are read again, many by one request.

mod registry;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use etcd_client::{Client, Error, GetOptions, WatchRequestSender, WatchResponseStream};
use futures_util::future::FutureExt;
use futures_util::stream;
use lock_core::BackendError;
use lock_core::backend::Changes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::registry::{Registry, Request, Target, Watched};
use crate::protocol::requests;
use crate::protocol::view::{entries, only};
use crate::wire::server::Server;

/// Longest time for opening a stream.
const OPEN_LIMIT: Duration = Duration::from_secs(2);

/// Pause before a broken stream is opened again. Waiters poll meanwhile.
const REOPEN_AFTER: Duration = Duration::from_millis(100);

/// Further pause after a refused watch. The next one may be refused too, and each costs a login.
const REFUSED_PAUSE: Duration = Duration::from_millis(400);

/// The watches of one client. The stream is opened when it is first needed, and kept.
pub(crate) struct Watches {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    registry: Mutex<Registry>,
    changed: Notify,
}

/// Reason why a stream has no more use.
enum End {
    Broken,
    /// The server does not serve a watch that we want: our login has expired, or our rights are gone.
    Refused,
}

/// A watch of one key, or of many. It is closed when it is dropped.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    id: i64,
    /// The key, or the start of the keys.
    key: Arc<[u8]>,
    /// Number of its openings when [`opened`](Self::opened) returned last.
    opened: u64,
}

impl Watch {
    /// Returns once the watch is open. Read the key then: earlier events are not reported.
    pub(crate) async fn opened(&mut self) {
        self.opened = self.seen(|seen| (seen.opened > 0).then_some(seen.opened)).await;
    }

    /// Returns true if the watch was opened again since: events of the meantime are not reported.
    pub(crate) fn was_reopened(&self) -> bool {
        self.is_now(|seen| seen.opened > self.opened)
    }

    /// Returns true if the key was deleted since the watch was opened.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_now(|seen| seen.gone)
    }

    /// Returns once an event of the key came since the last call.
    pub(crate) async fn changed(&mut self) {
        self.seen(|seen| seen.is_new.then_some(())).await;
    }

    /// Returns true if it watches this key.
    pub(crate) fn is_of(&self, key: &[u8]) -> bool {
        *self.key == *key
    }

    fn is_now(&self, is_so: impl Fn(&Watched) -> bool) -> bool {
        self.shared.registry.lock().watched.get(&self.id).is_some_and(is_so)
    }

    /// Waits for the expected state, and marks its events as seen.
    fn seen<T>(&self, look: impl Fn(&Watched) -> Option<T>) -> impl Future<Output = T> {
        poll_fn(move |cx| {
            let mut registry = self.shared.registry.lock();
            let Some(watched) = registry.watched.get_mut(&self.id) else { return Poll::Pending };
            let Some(found) = look(watched) else {
                watched.watcher = Some(cx.waker().clone());
                return Poll::Pending;
            };
            watched.is_new = false;
            Poll::Ready(found)
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.registry.lock().close(self.id);
        self.shared.changed.notify_one();
    }
}

impl Watches {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        let shared = Shared { server, registry: Mutex::default(), changed: Notify::new() };
        Self { shared: Arc::new(shared), task: Mutex::default() }
    }

    /// Returns once the claim with this `key` and this create `revision` is certainly gone, at any time since the
    /// call.
    pub(crate) async fn gone(&self, key: Arc<str>, revision: i64) {
        let mut watch = self.watch(key.clone().into(), revision);
        // C8: the key is certainly gone.
        while !watch.is_gone() {
            if watch.was_reopened() || watch.opened == 0 {
                watch.opened().await;
                // Boxed, since very many keys are watched, and few are read at a time.
                if Box::pin(self.shared.lacks(&key, revision)).await {
                    return;
                }
            } else {
                watch.changed().await;
            }
        }
    }

    /// Watches the deletion of `key` from now on, after this revision.
    pub(crate) fn watch(&self, key: Arc<[u8]>, since: i64) -> Watch {
        self.open(Target::Key(key, since))
    }

    /// Watches writes and deletions of `key` from now on.
    pub(crate) fn watch_changes(&self, key: &[u8]) -> Watch {
        self.open(Target::KeyChanges(key.into()))
    }

    /// Watches deletions of keys that start with `start` from now on.
    pub(crate) fn watch_deletions(&self, start: &str) -> Watch {
        self.open(Target::DeletionsStartingWith(start.as_bytes().into()))
    }

    /// Signals changes of the keys that start with `start`, and each opening of the watch, since earlier events are
    /// not reported (C44).
    pub(crate) fn changes(&self, start: &str) -> Changes {
        let watch = self.open(Target::KeysStartingWith(start.as_bytes().into()));
        Box::pin(stream::unfold(watch, async |mut watch| {
            watch.changed().await;
            Some(((), watch))
        }))
    }

    fn open(&self, target: Target) -> Watch {
        self.ensure_running();
        let key = target.key().clone();
        let id = self.shared.registry.lock().open(target);
        self.shared.changed.notify_one();
        Watch { shared: self.shared.clone(), id, key, opened: 0 }
    }

    fn ensure_running(&self) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(self.shared.clone().run()));
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

impl Shared {
    /// Returns true if a read shows that `key` does not belong to this claim. A failed read proves nothing, unless it
    /// shows another store, or one that has gone back in time: such a store proves no hold of ours any more (C22).
    async fn lacks(&self, key: &str, revision: i64) -> bool {
        let (link, server) = (self.server.link(), self.server.clone());
        let alone = async {
            let options = GetOptions::new().with_keys_only();
            let found = self.server.get(key, options).boxed().await?;
            Ok(only(&found).map(|claim| claim.revision))
        };
        let together = |keys| async move { made_in(&server, keys).await }.boxed();
        match link.reads.ask(key, || key.to_owned(), alone, together).await {
            Ok(made) => made != Some(revision),
            Err(_) => self.server.is_astray(),
        }
    }

    /// Keeps a stream open, for ever.
    async fn run(self: Arc<Self>) {
        loop {
            self.registry.lock().reopen();
            while self.registry.lock().requests.is_empty() {
                self.changed.notified().await;
            }
            let link = self.server.link();
            let opened = async {
                let client = self.server.client(&link).await?;
                self.open(client).await
            };
            match timeout(OPEN_LIMIT, opened).await {
                Ok(Ok(Some((sender, responses)))) => {
                    let refused = tokio::select! {
                        end = self.serve(sender, responses) => matches!(end, End::Refused),
                        () = link.retired() => false,
                    };
                    if refused {
                        // A new connection comes with a new login.
                        self.server.retire(&link);
                        sleep(REFUSED_PAUSE).await;
                    }
                }
                Ok(Ok(None)) => continue,
                Ok(Err(_)) | Err(_) => self.server.retire(&link),
            }
            sleep(REOPEN_AFTER).await;
        }
    }

    /// Opens a stream with the first wanted watch.
    async fn open(
        &self,
        mut client: Client,
    ) -> Result<Option<(WatchRequestSender, WatchResponseStream)>, Error> {
        let Some((id, target)) = self.registry.lock().first() else { return Ok(None) };
        let stream = client.watch(&**target.key(), Some(target.options(id))).await?;
        self.registry.lock().sent(Request::Open(id));
        Ok(Some(stream.split()))
    }

    /// Sends requests and reads answers until the stream has no more use.
    async fn serve(
        &self,
        mut sender: WatchRequestSender,
        mut responses: WatchResponseStream,
    ) -> End {
        loop {
            let next = self.registry.lock().next();
            tokio::select! {
                response = responses.message() => match response {
                    Ok(Some(response)) if self.registry.lock().is_refusal(&response) => return End::Refused,
                    Ok(Some(response)) => self.registry.lock().read(&response),
                    Ok(None) | Err(_) => return End::Broken,
                },
                sent = send(&mut sender, next.clone()), if next.is_some() => {
                    let (Ok(()), Some((request, _))) = (sent, next) else { return End::Broken };
                    self.registry.lock().sent(request);
                }
                () = self.changed.notified(), if next.is_none() => {}
            }
        }
    }
}

/// Reads the create revisions of these keys; `None` for a missing key.
async fn made_in(
    server: &Server,
    keys: Vec<String>,
) -> Result<Vec<Option<Option<i64>>>, BackendError> {
    let found = entries(&server.txn(requests::prove(keys)).await?)?;
    Ok(found.into_iter().map(|claim| Some(claim.map(|claim| claim.revision))).collect())
}

async fn send(
    sender: &mut WatchRequestSender,
    next: Option<(Request, Option<Target>)>,
) -> Result<(), Error> {
    match next {
        Some((Request::Open(id), Some(target))) => {
            sender.watch(&**target.key(), Some(target.options(id))).await
        }
        Some((Request::Cancel(id), _)) => sender.cancel(id).await,
        Some((Request::Open(_), None)) | None => Ok(()),
    }
}
