//! Decides which servers vote (P2).
//!
//! A server that restarted may have lost its grants. If it voted at once, it could grant a lock to a second holder
//! together with servers outside of the first holder's majority. So it stays out until no hold can exist any more
//! that it may have granted before.
//!
//! ```text
//!             restart, or loss of all data          let in              its time is over
//!   votes ─────────────────────────────────▶ new ─────────▶ out for t ──────────────────▶ votes
//! ```
//!
//! *Detection.* Each server stores the admitted run (`{}:run`). A client learns the run of the server (`run_id`) on
//! each connection, and sends it with each request for a vote. A server that restarted has another run, with its data
//! or without. A server that lost its data has no stored run.
//!
//! *Time out of the vote.* Each server has a key that lasts as long as any hold that it granted or extended may last
//! (`{}:held`). The client that admits a server asks the others for it, and uses the longest answer. So a server
//! stays out for the longest TTL in use, and for a second if nothing is held. The client first waits for that second:
//! by then, an attempt that counts a vote of the lost run has all its votes. Later answers do not count, even if
//! their client was paused meanwhile.
//!
//! *Renewals.* A server that is new or out counts neither as having a hold nor as lacking it. Its file may have holds
//! that were evicted since, and that the server would extend with those that did not hear of the eviction.
//!
//! *Who admits.* Each client that asks for votes or renews, and the doctor.
//!
//! *Answers needed.* All other servers, or a majority of all voters. A majority that granted a hold shares a server
//! with these, apart from the lost one.
//!
//! *Tokens after the admission.* Only tokens above the greatest ballot of the servers that answered (`{}:floor`),
//! since its counters may be lost (C22).
//!
//! A set without any admitted server is new: all servers vote at once. A set that lost its data on all servers at the
//! same time looks the same.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use tokio::time::sleep;

use super::majority::{Answers, majority, said};
use super::round::Round;
use super::voter::{ANSWER_COUNTS_FOR, LettingIn, Voter};

/// Facts that a voter reports.
#[derive(Clone, Debug)]
pub(super) struct VoterReport {
    /// The run of the server.
    pub(super) run: String,
    /// True if this run was let in.
    pub(super) is_in: bool,
    /// True if an earlier run was let in: it has been a voter before.
    pub(super) was_in: bool,
    /// Longest time left of the holds that it granted.
    pub(super) held: Duration,
    /// Its greatest ballot.
    pub(super) high: u64,
    /// Time for which it does not vote yet, since it was let in.
    pub(super) out: Duration,
}

impl VoterReport {
    /// Returns true if it votes.
    pub(super) fn votes(&self) -> bool {
        self.is_in && self.out.is_zero()
    }
}

/// The time for which a server stays out, and the ballots that it may grant then.
#[derive(Debug, PartialEq)]
struct Terms {
    out: Duration,
    floor: u64,
}

/// Admits all servers at once, if this is a new set.
pub(super) async fn begin(voters: &[Arc<Voter>], told: &Answers<VoterReport>) {
    if is_new_set(told) {
        let of_each = voters.iter().zip(said(told));
        // A server that fails now is new to the first attempt too.
        join_all(of_each.map(|(voter, told)| voter.let_in(&told.run, Duration::ZERO, 0))).await;
    }
}

/// Returns the admissions of the servers that have said since the last call that they are new.
pub(super) fn newcomers(
    voters: &Arc<[Arc<Voter>]>,
) -> impl Iterator<Item = BoxFuture<'static, ()>> {
    let newcomers = voters.iter().filter(|voter| voter.takes_newness());
    newcomers.filter_map(|voter| {
        let alone = voter.begin_letting_in()?;
        Some(let_in(voters.clone(), voter.clone(), alone).boxed())
    })
}

/// Admits all servers that are new, and waits until that is done.
pub(super) async fn let_all_in(voters: &Arc<[Arc<Voter>]>) {
    let of_each = voters.iter().map(|voter| async move {
        let alone = voter.letting_in().await;
        let_in(voters.clone(), voter.clone(), alone).await;
    });
    join_all(of_each).await;
}

/// Admits one server when its time is over.
async fn let_in(voters: Arc<[Arc<Voter>]>, newcomer: Arc<Voter>, _until_the_end: LettingIn) {
    // The run is asked for first: the terms are not valid for a later run, which may have lost more.
    if let Ok(VoterReport { run, is_in: false, .. }) = newcomer.tell().await {
        sleep(by_any_clock(ANSWER_COUNTS_FOR)).await;
        if let Some(Terms { out, floor }) = terms_of_others(&voters, &newcomer).await {
            // After an error the next attempt begins again.
            let _ = newcomer.let_in(&run, out, floor).await;
        }
    }
}

async fn terms_of_others(voters: &[Arc<Voter>], newcomer: &Arc<Voter>) -> Option<Terms> {
    let others = voters.iter().filter(|voter| !Arc::ptr_eq(voter, newcomer));
    let others: Vec<_> = others.cloned().collect();
    let mut told = Round::ask(&others, |voter| async move { voter.tell().await });
    terms(told.all().await)
}

/// Returns true if all servers answer, and none was ever admitted.
fn is_new_set(told: &Answers<VoterReport>) -> bool {
    told.iter().all(|answer| matches!(answer, Some(Ok(VoterReport { was_in: false, .. }))))
}

/// Joins the answers of the others; `None` if too few have answered.
fn terms(others: &Answers<VoterReport>) -> Option<Terms> {
    let told = || said(others);
    let voting = told().filter(|told| told.is_in).count();
    let suffice = told().count() == others.len() || voting >= majority(others.len() + 1);
    let out = told().map(|told| told.held).max().unwrap_or_default();
    let out = if out.is_zero() { out } else { by_any_clock(out) };
    let floor = told().map(|told| told.high).max().unwrap_or(0);
    suffice.then_some(Terms { out, floor })
}

/// Returns a span that is longer than this one on any clock, since clocks drift apart by less.
fn by_any_clock(span: Duration) -> Duration {
    span + span / 100 + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use lock_core::BackendError;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn voting(held: Duration, high: u64) -> Option<Result<VoterReport, BackendError>> {
        let out = Duration::ZERO;
        Some(Ok(VoterReport { run: String::new(), is_in: true, was_in: true, held, high, out }))
    }

    fn empty() -> Option<Result<VoterReport, BackendError>> {
        Some(Ok(VoterReport {
            run: String::new(),
            is_in: false,
            was_in: false,
            held: Duration::ZERO,
            high: 0,
            out: Duration::ZERO,
        }))
    }

    fn silent() -> Option<Result<VoterReport, BackendError>> {
        Some(Err(BackendError::no_answer("test", SECOND)))
    }

    #[test]
    fn p2_the_longest_hold_of_the_others_counts() {
        let terms = terms(&[voting(SECOND, 7), voting(10 * SECOND, 5)]).expect("all have told");
        assert!(terms.out > 10 * SECOND && terms.out < 11 * SECOND, "{terms:?}");
        assert_eq!(terms.floor, 7);
    }

    #[test]
    fn p2_a_server_is_let_in_once_enough_others_have_told() {
        assert!(terms(&[voting(SECOND, 1), silent()]).is_none(), "the silent one may know more");
        let [one, two, three] = [1, 2, 3].map(|high| voting(SECOND, high));
        assert!(terms(&[one.clone(), two.clone(), three, silent()]).is_some());
        assert!(terms(&[one, two, empty(), silent()]).is_none());
        let none = terms(&[empty(), empty()]).expect("all have told");
        assert_eq!(none, Terms { out: Duration::ZERO, floor: 0 });
    }

    #[test]
    fn p2_a_set_is_new_only_if_all_say_so() {
        assert!(is_new_set(&[empty(), empty(), empty()]));
        assert!(!is_new_set(&[empty(), empty(), silent()]));
        assert!(!is_new_set(&[empty(), empty(), voting(SECOND, 1)]));
    }
}
