//! Whole owner ids in public texts.

use std::fmt;

use async_trait::async_trait;
use lock_core::backend::Claim;
use lock_core::{BackendError, DistributedLock, LockAdmin, LockName, LockState, Outcome};

use super::flaw::{Flaw, Sound, Tried, Waiter};

/// An inspection shows the whole owner id.
#[derive(Debug)]
pub(super) struct InspectionShowsOwner;

#[async_trait]
impl Flaw for InspectionShowsOwner {
    async fn inspect(&self, sound: &Sound, name: &LockName) -> Result<LockState, BackendError> {
        let mut state = sound.inspect(name).await?;
        if let (Some(holder), Some(claim)) = (state.holders.first_mut(), sound.claims.of(name)) {
            holder.owner = Some(claim.owner.expose());
        }
        Ok(state)
    }
}

/// A refusal shows the whole owner id in one of its texts.
#[derive(Debug)]
pub(super) struct ErrorShowsOwner {
    refusal: fn(&Claim) -> BackendError,
}

impl ErrorShowsOwner {
    pub(super) fn by(refusal: fn(&Claim) -> BackendError) -> Self {
        Self { refusal }
    }
}

/// Shows it in the error's own text.
pub(super) fn in_its_text(claim: &Claim) -> BackendError {
    BackendError::refusal("memory", format!("the claim of {} was withdrawn", claim.owner.expose()))
}

/// Shows it in the driver's text about the failed request.
pub(super) fn in_its_source(claim: &Claim) -> BackendError {
    let source = Failed { statement: format!("CALL acquire('{}')", claim.owner.expose()) };
    BackendError::permanent("memory", Outcome::NotApplied, "the claim was withdrawn", source)
}

/// The error of a driver. Its `Debug` shows the request.
#[derive(Debug)]
struct Failed {
    #[allow(dead_code, reason = "it is shown by `Debug`")]
    statement: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the statement failed")
    }
}

impl std::error::Error for Failed {}

#[async_trait]
impl Flaw for ErrorShowsOwner {
    async fn acquire(&self, sound: &Sound, claim: &Claim, waiter: Waiter<'_>) -> Tried {
        let attempt = sound.acquire(claim, waiter).await;
        attempt.map_err(|_| (self.refusal)(claim))
    }
}
