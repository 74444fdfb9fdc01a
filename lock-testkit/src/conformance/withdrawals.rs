//! C19: requests of withdrawn claims.

use crate::Expect;
use std::time::Duration;

use lock_core::backend::{Attempt, WITHDRAWAL_REMEMBERED};
use lock_core::{BackendError, Outcome};
use tokio::time::{Instant, sleep_until};

use super::harness::Harness;
use super::steps::{claim, fresh_name, granted};

/// C19: a late request of a withdrawn claim is refused permanently, so that it cannot acquire a lock for nobody;
/// others are granted it as before.
pub async fn c19_a_late_request_of_a_withdrawn_claim_is_refused(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let (unsent, held) = (claim(&name, harness.long_ttl()), claim(&name, harness.long_ttl()));
    backend.withdraw(&name, &[unsent.owner]).await.expect("an answer");
    granted(&*backend, &held).await;
    backend.withdraw(&name, &[held.owner]).await.expect("an answer");
    for ghost in [unsent, held] {
        assert_refused(backend.acquire(&ghost, None).await);
    }
    let next = claim(&name, harness.long_ttl());
    granted(&*backend, &next).await;
    backend.withdraw(&name, &[next.owner]).await.expect("an answer");
    let holder = backend.expect_admin().inspect(&name).await.expect("an answer").holder().cloned();
    assert_eq!(holder, None, "a withdrawal is to end the hold of its claim");
}

/// C19: a withdrawal is remembered for the time of the contract, whatever the TTL of its claim.
pub async fn c19_a_withdrawal_is_remembered(harness: &dyn Harness) {
    let backend = harness.connect().await;
    let mut ghosts = Vec::new();
    for seconds in [1, 5, 10, 25] {
        let ghost = claim(&fresh_name(), harness.ttl());
        let withdrawn = Instant::now();
        backend.withdraw(&ghost.name, &[ghost.owner]).await.expect("an answer");
        ghosts.push((withdrawn, Duration::from_secs(seconds), ghost));
    }
    for (withdrawn, age, ghost) in ghosts {
        sleep_until(withdrawn + age).await;
        let late = backend.acquire(&ghost, None).await;
        let in_time = withdrawn.elapsed() < WITHDRAWAL_REMEMBERED;
        assert!(in_time, "the machine is to be fast enough for a request within five seconds");
        assert_refused(late);
    }
}

/// Asserts that the request was refused permanently, and not carried out.
fn assert_refused(late: Result<Attempt, BackendError>) {
    let error = late.expect_err("a late request of a withdrawn claim is to be refused");
    let (outcome, is_final) = (error.outcome(), !error.is_transient());
    assert_eq!(
        outcome,
        Outcome::NotApplied,
        "the refusal is to say that nothing was done: {error}"
    );
    assert!(is_final, "the refusal is to say that no further try will help: {error}");
}
