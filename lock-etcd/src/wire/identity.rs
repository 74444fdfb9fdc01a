//! Checks that an answer comes from the known cluster, and is not older than the answers before.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use etcd_client::ResponseHeader;
use lock_core::BackendError;

use crate::wire::error::refusal;

/// The cluster that answered first, and its greatest seen revision.
///
/// A cluster that was restored from a backup gives out revisions a second time. These would make tokens that are
/// smaller than earlier ones (C22). So would another cluster, if one of its members is in the same URL. Answers of
/// such a cluster are refused.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// 0 until the first answer.
    cluster: AtomicU64,
    revision: AtomicI64,
    astray: AtomicBool,
}

impl Identity {
    /// Returns the greatest seen revision: no later request may be answered with less.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Returns the id of the cluster; 0 until the first answer.
    pub(crate) fn cluster(&self) -> u64 {
        self.cluster.load(Ordering::Acquire)
    }

    /// Returns true if the last answer was refused.
    pub(crate) fn is_astray(&self) -> bool {
        self.astray.load(Ordering::Acquire)
    }

    /// Returns true if this header comes from the known cluster, and not from before this revision.
    pub(crate) fn is_of(&self, header: Option<&ResponseHeader>, least: i64) -> bool {
        let is_ours = |header: &ResponseHeader| header.cluster_id() == self.cluster();
        header.is_some_and(|header| is_ours(header) && header.revision() >= least)
    }

    /// Notes an answer to a request that was sent when `least` was the greatest revision.
    pub(crate) fn check(
        &self,
        header: Option<&ResponseHeader>,
        least: i64,
    ) -> Result<(), BackendError> {
        let Some(header) = header else { return Ok(()) };
        let first = self.cluster.compare_exchange(
            0,
            header.cluster_id(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let other = first.is_err_and(|known| known != header.cluster_id());
        // C22: the tokens of another cluster, or of an earlier state of this one, would repeat ours.
        let refused = if other {
            Err(refusal("a member of another cluster answered: its tokens would repeat ours"))
        } else if header.revision() < least {
            Err(refusal("the cluster has gone back in time: it was restored or rebuilt"))
        } else {
            self.revision.fetch_max(header.revision(), Ordering::AcqRel);
            Ok(())
        };
        self.astray.store(refused.is_err(), Ordering::Release);
        refused
    }
}
