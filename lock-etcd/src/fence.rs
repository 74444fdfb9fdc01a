//! The side of the resource, for resources in etcd.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp, TxnOpResponse};
use lock_core::{BackendError, Fence, FenceError, FencingToken};

use crate::wire::answer::Answer;
use crate::wire::error::{not_understood, unreadable};
use crate::wire::server::Server;

/// The fence of a resource in an etcd cluster: the greatest token that it has seen, in a separate key.
///
/// [`EtcdBackend::fence`](crate::EtcdBackend::fence) makes it. The mark has no lease and belongs to the resource, not
/// to the lock. Advance first, then read, then write: with [`set`](Self::set), or in another transaction with the
/// condition of [`comparison`](Self::comparison).
#[derive(Clone)]
pub struct EtcdFence {
    server: Arc<Server>,
    mark: String,
}

/// Condition of a transaction that must be refused once a newer holder has advanced the fence: the value of `key`
/// equals `value`.
///
/// Plain data, for any client of etcd of any version:
///
/// ```text
/// // etcd-client (Rust)
/// Txn::new().when([Compare::value(c.key, CompareOp::Equal, c.value)]).and_then(writes)
/// // clientv3 (Go)
/// client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", value)).Then(writes...)
/// ```
///
/// The condition protects only after the token was [advanced](Fence::advance): advance, then read, then commit the
/// writes with this comparison. A refused transaction wrote nothing, and its caller is not the holder any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceComparison {
    /// The key of the fence's mark.
    pub key: String,
    /// The value of that key while no greater token was seen.
    pub value: String,
}

impl EtcdFence {
    pub(crate) fn new(server: Arc<Server>, mark: String) -> Self {
        Self { server, mark }
    }

    /// Returns the condition for a transaction of the holder of `token`.
    pub fn comparison(&self, token: FencingToken) -> FenceComparison {
        FenceComparison { key: self.mark.clone(), value: written(token) }
    }

    /// Sets `key` to `value` unless a greater token than `token` was seen, in one transaction.
    ///
    /// An accepted token advances the fence.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen; nothing is written.
    /// - [`FenceError::Backend`] if the cluster cannot be reached or refuses.
    ///
    /// # Cancel safety
    /// If the future is dropped, or fails with an unknown outcome, the value may have been written, or may still be
    /// written later. Then write nothing more within the same hold.
    pub async fn set(
        &self,
        token: FencingToken,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Result<(), FenceError> {
        self.commit(token, vec![TxnOp::put(key, value, None)]).await
    }

    /// Raises the mark to `token` and carries out `writes`, unless the mark is greater. A missing mark counts as less
    /// than any token.
    async fn commit(&self, token: FencingToken, writes: Vec<TxnOp>) -> Result<(), FenceError> {
        // C24: check, mark and writes are one transaction.
        let greater = Compare::value(&*self.mark, CompareOp::Greater, written(token));
        let mut accepted = vec![TxnOp::put(&*self.mark, written(token), None)];
        accepted.extend(writes);
        let read = || [TxnOp::get(&*self.mark, None)];
        // S1: a value that is less than any mark is no mark, and is not overwritten.
        let is_there = Compare::create_revision(&*self.mark, CompareOp::Greater, 0);
        let is_less = Compare::value(&*self.mark, CompareOp::Less, LEAST);
        let accept = Txn::new().when([is_there, is_less]).and_then(read()).or_else(accepted);
        let accept = TxnOp::txn(accept);
        let txn = Txn::new().when([greater]).and_then(read()).or_else([accept]);
        let answer = self.server.txn(txn).await?;
        let accept = if answer.succeeded { None } else { answer.of_each()?.pop() };
        match accept.as_ref().unwrap_or(&answer) {
            Answer { succeeded: false, .. } => Ok(()),
            Answer { parts, .. } => match parts.first() {
                Some(TxnOpResponse::Get(mark)) => Err(self.stale(token, mark.kvs().first())?),
                _ => Err(unreadable("the answer of a fence").into()),
            },
        }
    }

    fn stale(
        &self,
        token: FencingToken,
        mark: Option<&KeyValue>,
    ) -> Result<FenceError, BackendError> {
        let mark = mark.ok_or_else(|| unreadable("the mark of a fence"))?;
        Ok(FenceError::stale(token, self.seen_in(mark)?))
    }

    fn seen_in(&self, mark: &KeyValue) -> Result<FencingToken, BackendError> {
        let seen = mark.value_str().ok().and_then(|seen| Some((seen, seen.parse().ok()?)));
        let seen = seen.filter(|(seen, token)| *seen == written(*token)).map(|(_, token)| token);
        let then = "the fence then has seen no token";
        seen.ok_or_else(|| not_understood(&self.mark, "the mark of a fence", then))
    }
}

/// The least possible mark. A later format begins with a letter, which is greater than all present marks.
const LEAST: &str = "0000000000000001";

/// Returns the token with a fixed length, so that etcd's comparison of bytes compares the numbers.
fn written(token: FencingToken) -> String {
    format!("{:016}", token.get())
}

impl lock_core::backend::KeepsFences for crate::EtcdBackend {
    type Fence = EtcdFence;

    fn fence_of(&self, resource: &str) -> EtcdFence {
        self.fence(resource)
    }
}

#[async_trait]
impl Fence for EtcdFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        self.commit(token, Vec::new()).await
    }

    async fn seen(&self) -> Result<Option<FencingToken>, FenceError> {
        let answer = self.server.get(&*self.mark, None).await?;
        Ok(answer.kvs().first().map(|mark| self.seen_in(mark)).transpose()?)
    }
}

impl fmt::Debug for EtcdFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdFence").field("mark", &self.mark).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c24_written_tokens_compare_as_their_numbers_do() {
        let token = |value| FencingToken::new(value).expect("a token");
        assert!(written(token(9)) < written(token(10)));
        assert_eq!(written(FencingToken::MAX).len(), written(token(1)).len());
    }
}
