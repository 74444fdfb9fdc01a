//! Several locks in one request, acquired in a wrong way.

use crate::Expect;
use async_trait::async_trait;
use lock_core::backend::{Attempt, Claim, Grant};
use lock_core::{BackendError, DistributedLock, OwnerId};

use super::flaw::{Flaw, Sound};

/// Acquires all free locks, even behind a busy one.
#[derive(Debug)]
pub(super) struct TakesPastTheBusy;

#[async_trait]
impl Flaw for TakesPastTheBusy {
    async fn acquire_while_free(
        &self,
        sound: &Sound,
        claims: &[Claim],
    ) -> Result<Vec<Grant>, BackendError> {
        let mut grants = Vec::new();
        for claim in claims {
            if let Attempt::Granted(grant) = sound.acquire(claim, None).await? {
                grants.push(grant);
            }
        }
        Ok(grants)
    }
}

/// Claims to acquire several in one request, and acquires the first.
#[derive(Debug)]
pub(super) struct TakesOne;

#[async_trait]
impl Flaw for TakesOne {
    async fn acquire_while_free(
        &self,
        sound: &Sound,
        claims: &[Claim],
    ) -> Result<Vec<Grant>, BackendError> {
        sound.expect_several().acquire_while_free(&claims[..1]).await
    }
}

/// Ignores withdrawals.
#[derive(Debug)]
pub(super) struct TakesForTheWithdrawn;

#[async_trait]
impl Flaw for TakesForTheWithdrawn {
    async fn acquire_while_free(
        &self,
        sound: &Sound,
        claims: &[Claim],
    ) -> Result<Vec<Grant>, BackendError> {
        let mut claims = claims.to_vec();
        claims.iter_mut().for_each(|claim| claim.owner = OwnerId::random());
        sound.expect_several().acquire_while_free(&claims).await
    }
}
