//! A claim's key as it is in the store.

use etcd_client::KeyValue;
use lock_core::{BackendError, FencingToken, Kind, Slots};

use crate::error::unreadable;
use crate::value::{self, Value};

/// A claim's key as it is in the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredClaim {
    pub(crate) key: Vec<u8>,
    pub(crate) token: FencingToken,
    /// 0 if it has none.
    pub(crate) lease: i64,
    pub(crate) value: Value,
}

impl StoredClaim {
    pub(crate) fn of(pair: &KeyValue) -> Result<Self, BackendError> {
        let (value, token) = (value::read(pair.value()), token(pair.create_revision())?);
        Ok(Self { key: pair.key().to_vec(), token, lease: pair.lease(), value })
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

/// The token of a claim whose key was made in this revision of the store.
pub(crate) fn token(revision: i64) -> Result<FencingToken, BackendError> {
    let token = u64::try_from(revision).ok().and_then(|token| FencingToken::new(token).ok());
    token.ok_or_else(|| unreadable("a revision that is no token"))
}
