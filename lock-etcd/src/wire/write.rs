//! Writes to the store.

use etcd_client::{Txn, TxnOp};

/// A change that many callers may make as one, each for a lock of its own.
///
/// What a small write costs is its way through the cluster's log, and its request. As parts of one transaction each
/// compares by itself, and has an answer of its own. But the server compares for all parts before it carries out the
/// first one. Claims that are granted together have one token, each for a lock of its own (C22).
pub(crate) enum Write {
    Txn(Txn),
    /// Deletes a key. Alone it costs the server less than a transaction does.
    Deletion(String),
}

impl From<Write> for TxnOp {
    fn from(write: Write) -> Self {
        match write {
            Write::Txn(txn) => Self::txn(txn),
            Write::Deletion(key) => Self::delete(key, None),
        }
    }
}
