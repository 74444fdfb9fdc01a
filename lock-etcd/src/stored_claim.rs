//! A claim's key as it is in the store.

use etcd_client::KeyValue;
use lock_core::{Kind, Slots};

use crate::value::{self, Value};

/// A claim's key as it is in the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredClaim {
    pub(crate) key: Vec<u8>,
    /// The revision of the store in which it was made.
    pub(crate) revision: i64,
    /// 0 if it has none.
    pub(crate) lease: i64,
    pub(crate) value: Value,
}

impl StoredClaim {
    pub(crate) fn of(pair: &KeyValue) -> Self {
        let (key, value) = (pair.key().to_vec(), value::read(pair.value()));
        Self { key, revision: pair.create_revision(), lease: pair.lease(), value }
    }

    /// Who may hold beside it.
    pub(crate) fn kind(&self) -> Kind {
        self.value.kind
    }

    /// Its slots, if it is a claim on permits that holds.
    pub(crate) fn slots(&self) -> &Slots {
        &self.value.slots
    }
}
