//! One of the stores over which names are spread, as it is asked.

use std::sync::Arc;

use super::shard::Standing;
use crate::backend::distributed_lock::DistributedLock;
use crate::model::BackendError;

/// A shard whose backend can be asked.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) standing: Standing,
    pub(super) backend: Arc<dyn DistributedLock>,
}

impl Member {
    /// The answer; an error says which shard gave it.
    pub(super) fn named<T>(&self, answer: Result<T, BackendError>) -> Result<T, BackendError> {
        answer.map_err(|error| error.of_store(format_args!("shard {}", self.id)))
    }
}
