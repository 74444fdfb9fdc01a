//! A claim's key as it is in the store.

use etcd_client::KeyValue;
use lock_core::{Kind, Slots};

use crate::layout::value::{self, Value};

/// A claim's key as it is in the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredClaim {
    pub(crate) key: Vec<u8>,
    /// The revision of the store in which the key was made.
    pub(crate) revision: i64,
    /// The revision of the store in which the key was last written.
    pub(crate) modified: i64,
    /// 0 if it has none.
    pub(crate) lease: i64,
    pub(crate) value: Value,
}

impl StoredClaim {
    pub(crate) fn of(pair: &KeyValue) -> Self {
        let (key, value) = (pair.key().to_vec(), value::read(pair.value()));
        let (revision, modified) = (pair.create_revision(), pair.mod_revision());
        Self { key, revision, modified, lease: pair.lease(), value }
    }

    /// Returns its kind, which decides on the other holds beside it.
    pub(crate) fn kind(&self) -> Kind {
        self.value.kind
    }

    /// Returns true if its holder has written that it holds. A value that is not understood is a hold of another.
    pub(crate) fn is_claimed(&self) -> bool {
        let Value { since, slots, owner, .. } = &self.value;
        since.is_some() || *slots != Slots::NONE || owner.is_none()
    }

    /// Returns true if a waiter whose turn has come may be this claim, or be behind it: a claim that holds permits has room
    /// beside it.
    pub(crate) fn leaves_doubt(&self) -> bool {
        !self.is_claimed() || self.kind().slots() > 0
    }

    /// Returns true if a waiter has rewritten its place since it took it.
    pub(crate) fn has_shown_life(&self) -> bool {
        self.modified > self.revision
    }

    /// Returns its slots, if it is a held claim on permits.
    pub(crate) fn slots(&self) -> &Slots {
        &self.value.slots
    }
}
