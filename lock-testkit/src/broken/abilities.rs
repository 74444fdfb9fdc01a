//! Abilities of a broken backend beyond the four verbs.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{
    Record, Recording, RecordsRuns, Reservation, Reserved, ReservesTokens, TokenRange,
};
use lock_core::{DistributedLock, LockName, Occurrence, RecordedRun};

use super::backend::{Answer, Broken};
use super::flaw::Flaw;

#[async_trait]
impl ReservesTokens for Broken {
    async fn release_or_reserve(&self, hold: &Reservation) -> Answer<Reserved> {
        self.begin();
        let mut hold = hold.clone();
        match self.flaw {
            Flaw::None => {}
            Flaw::NeverYields => hold.yields = false,
            Flaw::ReservesGranted => {
                if let Some(token) = self.own_token(&hold.name, hold.owner).await? {
                    let tokens = TokenRange::new(token, hold.tokens).expect("good tokens");
                    return Ok(Reserved::Tokens(tokens));
                }
            }
            // A flaw of releases shows here too.
            _ => return self.release(&hold.name, hold.owner).await.map(Reserved::Ended),
        }
        self.sound.release_or_reserve(&hold).await
    }
}

#[async_trait]
impl RecordsRuns for Broken {
    async fn record(&self, record: &Record) -> Answer<Recording> {
        self.begin();
        let mut record = record.clone();
        match self.flaw {
            Flaw::RecordsAfterLoss => {
                let key = (record.name, record.occurrence);
                self.seen().records.insert(key, record.token);
                return Ok(Recording::Recorded);
            }
            Flaw::RecordsUnderAnyToken => {
                let own = self.own_token(&record.name, record.owner).await?;
                record.token = own.unwrap_or(record.token);
            }
            Flaw::RecordsForEver => record.remember = Duration::from_secs(24 * 60 * 60),
            _ => record.occurrence = self.compared(&record.occurrence),
        }
        self.sound.record(&record).await
    }

    async fn runs(&self, name: &LockName, of: Option<&Occurrence>) -> Answer<Vec<RecordedRun>> {
        self.begin();
        match (self.flaw, of) {
            (Flaw::RecordsAfterLoss, Some(of)) => {
                let token = self.seen().records.get(&(name.clone(), of.clone())).copied();
                Ok(token.map(|token| RecordedRun::new(of.clone(), token)).into_iter().collect())
            }
            _ => self.sound.runs(name, of.map(|of| self.compared(of)).as_ref()).await,
        }
    }

    async fn forget(&self, name: &LockName, occurrence: &Occurrence) -> Answer<bool> {
        self.begin();
        match self.flaw {
            Flaw::ForgetsNothing => Ok(self.sound.recorded(name, occurrence).await?.is_some()),
            _ => self.sound.forget(name, occurrence).await,
        }
    }
}

impl Broken {
    /// Returns the occurrence as the store compares it.
    fn compared(&self, occurrence: &Occurrence) -> Occurrence {
        match self.flaw {
            Flaw::OccurrencesInAnyCase => {
                Occurrence::new(occurrence.as_str().to_lowercase()).expect("a good occurrence")
            }
            _ => occurrence.clone(),
        }
    }
}
