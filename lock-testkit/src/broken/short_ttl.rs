//! Holds that end before the reported TTL.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, Extension, Renewal};
use lock_core::{DistributedLock, Ttl};

use super::flaw::{ExtensionResult, Flaw, Sound, Tried, Waiter};

/// The server keeps a hold only for these shares of the TTLs that it reports.
#[derive(Debug)]
pub(super) struct ShortTtl {
    pub(super) grant: f64,
    pub(super) repeat: f64,
    pub(super) extension: f64,
}

impl Default for ShortTtl {
    fn default() -> Self {
        Self { grant: 1.0, repeat: 1.0, extension: 1.0 }
    }
}

fn share_of(ttl: Ttl, share: f64) -> Ttl {
    let shortest = Duration::from_millis(10);
    Ttl::new(ttl.as_duration().mul_f64(share).max(shortest)).expect("a good TTL")
}

#[async_trait]
impl Flaw for ShortTtl {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        let is_repeat = sound.own_token(&claim.name, claim.owner).await?.is_some();
        let share = if is_repeat { self.repeat } else { self.grant };
        let mut kept = claim.clone();
        kept.ttl = share_of(claim.ttl, share);
        let mut attempt = sound.acquire(&kept, waiter).await?;
        if let Attempt::Granted(grant) = &mut attempt {
            grant.ttl = claim.ttl.as_duration();
        }
        Ok(attempt)
    }

    async fn extend(&self, sound: &Sound, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        let mut kept = renewals.to_vec();
        for renewal in &mut kept {
            renewal.ttl = share_of(renewal.ttl, self.extension);
        }
        let answers = sound.extend(&kept).await.into_iter().zip(renewals);
        let told = |(answer, renewal): (ExtensionResult, &Renewal)| match answer {
            Ok(Extension::Extended(_)) => Ok(Extension::Extended(renewal.ttl.as_duration())),
            other => other,
        };
        answers.map(told).collect()
    }
}
