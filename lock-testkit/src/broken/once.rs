//! Runs once that let others in early, or record too much.

use crate::Expect;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Record, Recording, Release};
use lock_core::{BackendError, DistributedLock, FencingToken, LockName, Occurrence, OwnerId, Ttl};

use super::flaw::{Flaw, Released, Sound};

/// Answer to a record.
type Recorded = Result<Recording, BackendError>;

/// A delayed release frees the lock at once.
#[derive(Debug)]
pub(super) struct ReleasesAtOnce;

#[async_trait]
impl Flaw for ReleasesAtOnce {
    async fn release_after(
        &self,
        sound: &Sound,
        name: &LockName,
        owner: OwnerId,
        _delay: Ttl,
    ) -> Released {
        sound.release(name, owner).await
    }
}

/// A delayed release only makes the hold longer: it stays its owner's.
#[derive(Debug)]
pub(super) struct StaysItsOwners;

#[async_trait]
impl Flaw for StaysItsOwners {
    async fn release_after(
        &self,
        sound: &Sound,
        name: &LockName,
        owner: OwnerId,
        delay: Ttl,
    ) -> Released {
        let Some(mut claim) = sound.claims.of(name).filter(|claim| claim.owner == owner) else {
            return Ok(Release::NotHeld);
        };
        claim.ttl = delay;
        sound.acquire(&claim, None).await?;
        Ok(Release::Released)
    }
}

/// A run is recorded even if its holder has lost the lock.
#[derive(Debug, Default)]
pub(super) struct RecordsAfterLoss {
    records: Mutex<HashMap<(LockName, Occurrence), FencingToken>>,
}

#[async_trait]
impl Flaw for RecordsAfterLoss {
    async fn record(&self, _sound: &Sound, record: &Record) -> Recorded {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert((record.name.clone(), record.occurrence.clone()), record.token);
        Ok(Recording::Recorded)
    }

    async fn recorded(
        &self,
        _sound: &Sound,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.get(&(name.clone(), occurrence.clone())).copied())
    }
}

/// An owner that holds the lock again can record for a hold that it lost.
#[derive(Debug)]
pub(super) struct RecordsUnderAnyToken;

#[async_trait]
impl Flaw for RecordsUnderAnyToken {
    async fn record(&self, sound: &Sound, record: &Record) -> Recorded {
        let mut record = record.clone();
        if let Some(token) = sound.own_token(&record.name, record.owner).await? {
            record.token = token;
        }
        sound.expect_run_records().record(&record).await
    }
}

/// A record never expires.
#[derive(Debug)]
pub(super) struct RecordsForEver;

#[async_trait]
impl Flaw for RecordsForEver {
    async fn record(&self, sound: &Sound, record: &Record) -> Recorded {
        let mut record = record.clone();
        record.remember = Duration::from_secs(24 * 60 * 60);
        sound.expect_run_records().record(&record).await
    }
}

/// Occurrences that the store compares in any case.
#[derive(Debug)]
pub(super) struct OccurrencesInAnyCase;

fn in_lower_case(occurrence: &Occurrence) -> Occurrence {
    Occurrence::new(occurrence.as_str().to_lowercase()).expect("a good occurrence")
}

#[async_trait]
impl Flaw for OccurrencesInAnyCase {
    async fn record(&self, sound: &Sound, record: &Record) -> Recorded {
        let mut record = record.clone();
        record.occurrence = in_lower_case(&record.occurrence);
        sound.expect_run_records().record(&record).await
    }

    async fn recorded(
        &self,
        sound: &Sound,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<Option<FencingToken>, BackendError> {
        sound.expect_run_records().recorded(name, &in_lower_case(occurrence)).await
    }
}

/// A record stays when it should be removed.
#[derive(Debug)]
pub(super) struct ForgetsNothing;

#[async_trait]
impl Flaw for ForgetsNothing {
    async fn forget(
        &self,
        sound: &Sound,
        name: &LockName,
        occurrence: &Occurrence,
    ) -> Result<bool, BackendError> {
        let recorded = sound.expect_run_records().recorded(name, occurrence).await?;
        Ok(recorded.is_some())
    }
}
