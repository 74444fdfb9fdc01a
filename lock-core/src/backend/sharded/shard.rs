//! One of the stores over which names are spread, as it is given.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::backend::distributed_lock::DistributedLock;
use crate::model::LockError;

/// The longest id of a shard.
const MAX_ID_BYTES: usize = 64;

/// Opens the store of a shard.
pub(super) type Open = dyn Fn() -> Opening + Send + Sync;
pub(super) type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;
pub(super) type Opened = Result<Arc<dyn DistributedLock>, LockError>;

/// One of the stores of a [`ShardedLock`](super::ShardedLock): its id, its backend, and whether names are moving
/// to it or away from it.
///
/// The id decides which names the shard has, and nothing else does: not its address, and not its place in the
/// list. So a store may move to another host under its id. Two stores must never swap their ids.
pub struct Shard {
    pub(super) id: String,
    pub(super) store: Store,
    pub(super) standing: Standing,
}

/// What a shard is made of.
pub(super) enum Store {
    Open(Arc<dyn DistributedLock>),
    ToOpen(Box<Open>),
}

/// In which of two lists a shard is, while names move from the places that the former list gives them to those
/// of the list to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// In both.
    Staying,
    /// In the list to come alone.
    Joining,
    /// In the former list alone.
    Leaving,
}

impl Shard {
    /// The shard called `id`, whose locks are in `backend`.
    pub fn new(id: impl Into<String>, backend: impl DistributedLock) -> Self {
        Self::of(id, Store::Open(Arc::new(backend)))
    }

    /// The shard called `id`, whose backend `open` opens: at once if the store can be reached, else when a lock
    /// of the shard is wanted.
    pub fn opened_by<F>(id: impl Into<String>, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Opened> + Send + 'static,
    {
        Self::of(id, Store::ToOpen(Box::new(move || Box::pin(open()))))
    }

    fn of(id: impl Into<String>, store: Store) -> Self {
        Self { id: id.into(), store, standing: Standing::Staying }
    }

    /// The same, of a shard that is new: names move to it.
    #[must_use]
    pub fn joining(self) -> Self {
        Self { standing: Standing::Joining, ..self }
    }

    /// The same, of a shard that is to go: its names move away.
    #[must_use]
    pub fn leaving(self) -> Self {
        Self { standing: Standing::Leaving, ..self }
    }

    /// Whether `id` may be the id of a shard: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, of which the first
    /// is a letter or a digit.
    pub fn is_id(id: &str) -> bool {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        id.len() <= MAX_ID_BYTES
            && id.bytes().all(is_part)
            && id.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("id", &self.id)
            .field("standing", &self.standing)
            .finish_non_exhaustive()
    }
}
