//! Records a run beside its lock.

use tokio::time::Instant;

use super::Hold;
use crate::backend::Recording;
use crate::engine::client::Store;
use crate::model::{BackendError, Record};

impl Store {
    /// Records a run, and repeats the request while the hold lasts: if it gave up earlier, the next holder would run
    /// the occurrence again (C42).
    ///
    /// If a renewal moves the deadline meanwhile, this continues, for one TTL in all: a server that renews but never
    /// records is not asked for ever.
    pub(crate) async fn record(
        &self,
        hold: &Hold,
        record: &Record,
    ) -> Result<Recording, BackendError> {
        let end = Instant::now() + hold.remaining().max(hold.lease().asked.as_duration());
        let mut earlier = None;
        loop {
            let deadline = hold.deadline();
            let limit = hold.remaining().min(end.saturating_duration_since(Instant::now()));
            let record_once = async |_| self.run_records()?.record(record).await;
            let error = match self.request_within(limit, record_once).await {
                Ok(Recording::Recorded) => return Ok(Recording::Recorded),
                Ok(Recording::Lost) => return self.recording_before_loss(record).await,
                Err(error) => error,
            };
            let goes_on = hold.deadline() != deadline && Instant::now() < end;
            let is_last = !error.is_transient() || !goes_on;
            let error = error.told_after(earlier.take());
            if is_last {
                return Err(error);
            }
            earlier = Some(error);
        }
    }

    /// The hold is over. An earlier try whose reply was lost may have recorded the run (C16).
    async fn recording_before_loss(&self, record: &Record) -> Result<Recording, BackendError> {
        let Record { name, occurrence, token, .. } = record;
        match self.request(async || self.run_records()?.recorded(name, occurrence).await).await? {
            Some(recorded) if recorded == *token => Ok(Recording::Recorded),
            Some(_) | None => Ok(Recording::Lost),
        }
    }
}
