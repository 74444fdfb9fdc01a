//! Reservations that reserve nothing.

use crate::Expect;
use async_trait::async_trait;
use lock_core::BackendError;
use lock_core::backend::{Reservation, Reserved, TokenRange};

use super::flaw::{Flaw, Sound};

/// Reserves tokens that were granted, or will be.
#[derive(Debug)]
pub(super) struct Unreserved;

#[async_trait]
impl Flaw for Unreserved {
    async fn release_or_reserve(
        &self,
        sound: &Sound,
        hold: &Reservation,
    ) -> Result<Reserved, BackendError> {
        match sound.own_token(&hold.name, hold.owner).await? {
            Some(token) => {
                let tokens = TokenRange::new(token, hold.tokens).expect("good tokens");
                Ok(Reserved::Tokens(tokens))
            }
            None => sound.expect_token_ranges().release_or_reserve(hold).await,
        }
    }
}

/// Keeps the hold, even if clients wait on the server.
#[derive(Debug)]
pub(super) struct NeverYields;

#[async_trait]
impl Flaw for NeverYields {
    async fn release_or_reserve(
        &self,
        sound: &Sound,
        hold: &Reservation,
    ) -> Result<Reserved, BackendError> {
        let mut hold = hold.clone();
        hold.yields = false;
        sound.expect_token_ranges().release_or_reserve(&hold).await
    }
}
