//! Answers to transactions.

use etcd_client::{ResponseHeader, TxnOpResponse, TxnResponse};
use lock_core::BackendError;

use crate::wire::error::unreadable;

/// Answer to a whole transaction, or to a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The revision of the store after it. A key that the transaction made has this create revision.
    pub(crate) revision: i64,
    /// True if all its comparisons held.
    pub(crate) succeeded: bool,
    /// Answer to each of its operations.
    pub(crate) parts: Vec<TxnOpResponse>,
}

impl Answer {
    pub(crate) fn of(response: &TxnResponse) -> Result<Self, BackendError> {
        revision(response.header()).map(|revision| Self::at(revision, response))
    }

    fn at(revision: i64, response: &TxnResponse) -> Self {
        Self { revision, succeeded: response.succeeded(), parts: response.op_responses() }
    }

    /// Returns the separate answer of each part. The server reports the revision only for the whole.
    pub(crate) fn of_each(&self) -> Result<Vec<Self>, BackendError> {
        let revision = self.revision;
        let each = self.parts.iter().map(|part| match part {
            TxnOpResponse::Txn(response) => Ok(Self::at(revision, response)),
            _ => Err(unreadable("the answer to a transaction of several")),
        });
        each.collect()
    }
}

fn revision(header: Option<&ResponseHeader>) -> Result<i64, BackendError> {
    header.map(ResponseHeader::revision).ok_or_else(|| unreadable("an answer without a revision"))
}
