//! C40: leaders, and their observers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::harness::Harness;
use super::steps::{client, eventually, faulty_client, fresh_name, options, patient};
use crate::{Fault, Faulty, Operation};
use lock_core::backend::FALLBACK_POLL;
use lock_core::{
    ClientOptions, Clock, Drift, Election, FencingToken, Kind, Leader, LockClient, LockName,
    Observer, SystemClock, Wait,
};

/// Interval of an observer's looks here.
const POLL: Duration = Duration::from_millis(50);

/// C40: a leader is identified by its term and label. When it resigns, the next candidate leads long before any TTL
/// ends.
pub async fn c40_a_leader_that_resigns_hands_over_at_once(harness: &dyn Harness) {
    let (name, waits) = (fresh_name(), Arc::new(AtomicBool::new(false)));
    let told = waits.clone();
    let two = election(harness, &name).await;
    let two = two.on_wait(move |_| told.store(true, Ordering::Relaxed)).label("two");
    let one = election(harness, &name).await.label("one");
    let leader = async || one.leader().await.expect("an answer").map(term_and_label);
    assert_eq!(leader().await, None, "nobody is to lead before somebody was elected");
    let first = one.campaign().await.expect("nobody else campaigns");
    let elected = Some((first.term(), "one".to_owned()));
    assert_eq!(leader().await, elected, "the one who was elected is to be shown as the leader");
    let term = first.term();
    let resign = async {
        eventually(harness, "two waits", async || waits.load(Ordering::Relaxed)).await;
        let resigned = Instant::now();
        first.resign().await.expect("it led to the end");
        resigned
    };
    let (second, resigned) = tokio::join!(two.campaign(), resign);
    let (second, took) = (second.expect("its turn comes"), resigned.elapsed());
    let bound = FALLBACK_POLL + harness.slack();
    assert!(took < bound, "a leader that resigns is to hand over within {bound:?}: {took:?}");
    assert!(second.term() > term, "each leader is to have a greater term");
    let elected = Some((second.term(), "two".to_owned()));
    assert_eq!(leader().await, elected, "the next one is to be shown as the leader");
    second.resign().await.expect("it led to the end");
    assert_eq!(leader().await, None, "nobody is to lead after the last one resigned");
}

/// C40: answers out of order, as from a lagging replica, show an observer no smaller term, and do not hide the last
/// leader.
pub async fn c40_an_observer_never_sees_a_smaller_term(harness: &dyn Harness) {
    let name = fresh_name();
    let (election, (observing, faulty)) =
        (election(harness, &name).await, faulty_client(harness).await);
    let mut observer = observing.election(name.as_str()).observe().poll_every(POLL);
    let mut terms = Vec::new();
    for label in ["one", "two", "three"] {
        let leadership =
            election.clone().label(label).campaign().await.expect("nobody else campaigns");
        terms.extend(seen_until(harness, &mut observer, label).await);
        let early = observing.admin().inspect(&name).await.expect("an answer");
        leadership.resign().await.expect("it led to the end");
        let next =
            election.clone().label("between").campaign().await.expect("nobody else campaigns");
        terms.extend(seen_until(harness, &mut observer, "between").await);
        next.resign().await.expect("it led to the end");
        faulty.answer_late(early);
    }
    assert_growing(&terms);
}

/// C40: several observers see different parts of many leaders, each in the order of the terms, and all see the last
/// leader.
pub async fn c40_all_observers_see_the_last_leader(harness: &dyn Harness) {
    const CANDIDATES: usize = 3;
    const TERMS: usize = 4;
    let name = fresh_name();
    let lead = async {
        let candidates = (0..CANDIDATES).map(async |_| {
            let election = election(harness, &name).await.label("one of many");
            for _ in 0..TERMS {
                let leadership = election.campaign().await.expect("its turn comes");
                leadership.resign().await.expect("it led to the end");
            }
        });
        join_all(candidates).await;
        election(harness, &name)
            .await
            .label("last")
            .campaign()
            .await
            .expect("nobody else campaigns")
    };
    let observers = (0..CANDIDATES).map(async |_| {
        let mut observer = election(harness, &name).await.observe().poll_every(POLL);
        seen_until(harness, &mut observer, "last").await
    });
    let (last, seen) = tokio::join!(lead, join_all(observers));
    for terms in seen {
        assert_growing(&terms);
        assert_eq!(terms.last(), Some(&last.term()), "all are to see the same leader in the end");
    }
    last.resign().await.expect("it led to the end");
}

/// C40: an endless campaign goes on through an outage of any length, and reports it.
pub async fn c40_a_candidate_outlasts_an_outage(harness: &dyn Harness) {
    let (faulty, told) = (Faulty::new(harness.connect().await), Arc::new(AtomicUsize::new(0)));
    // A campaign survives five of these, as an acquisition does.
    let options = ClientOptions::new().request_timeout(harness.request_timeout() / 4);
    let candidate = LockClient::with_options(faulty.clone(), options);
    let counted = told.clone();
    let election = candidate.election(fresh_name()).ttl(harness.long_ttl()).wait(Wait::Forever);
    let election = election.on_outage(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
    faulty.always(Operation::Acquire, Fault::RequestLost);
    let outage = async {
        eventually(harness, "it is told twice", async || told.load(Ordering::Relaxed) > 1).await;
        faulty.heal();
    };
    let (elected, ()) = tokio::join!(timeout(harness.limit(), election.campaign()), outage);
    let leadership = elected.expect("it is still a candidate").expect("nobody else campaigns");
    leadership.resign().await.expect("it led to the end");
}

/// C40, C5: with a margin, a leader stops believing that much earlier, before anybody else leads.
pub async fn c40_a_leader_stops_believing_a_margin_before_the_next(harness: &dyn Harness) {
    let (name, ttl, margin) = (fresh_name(), harness.ttl() * 4, harness.ttl() * 2);
    let faulty = Faulty::new(harness.connect().await);
    let drift = Drift::new(Drift::default().rate, margin);
    let leader = LockClient::with_options(faulty.clone(), options(harness).drift(drift));
    let leadership = leader.election(&name).ttl(ttl).campaign().await.expect("nobody else");
    faulty.always(Operation::Extend, Fault::Silence);
    let guard = leadership.into_guard();
    guard.lost().await;
    let next = election(harness, &name).await.campaign().await.expect("its turn comes");
    let believed_until = guard.deadline();
    let apart = SystemClock.now().since(believed_until);
    assert!(apart >= margin, "two are to be {margin:?} apart, and were {apart:?}");
    next.resign().await.expect("it led to the end");
}

/// C40: a holder of an election's lock that was no candidate is no leader for any observer. It keeps the candidates
/// out.
pub async fn c40_a_holder_that_was_not_elected_leads_nobody(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let election = election(harness, &name).await.label("elected");
    let mut observer = election.observe().poll_every(POLL);
    let alone = patient(&name, harness.long_ttl());
    let shared = client.capabilities().kinds.has(Kind::Shared).then(|| alone.clone().shared());
    for request in [Some(alone), shared].into_iter().flatten() {
        let holder = client.acquire(request).await.expect("a free lock");
        let leader = election.leader().await.expect("an answer");
        assert_eq!(leader, None, "a holder that was not elected is not to be shown as a leader");
        let seen = timeout(POLL * 4, observer.next()).await;
        let nobody = !matches!(seen, Ok(Ok(Some(_))));
        assert!(nobody, "an observer is not to be shown who was not elected: {seen:?}");
        let early = election.clone().wait(Wait::Never).campaign().await;
        assert!(early.is_err(), "nobody is to be elected while another holds the lock: {early:?}");
        holder.release().await.expect("held to the end");
        let leadership = election.campaign().await.expect("nobody else campaigns");
        let seen = seen_until(harness, &mut observer, "elected").await;
        assert_eq!(seen, [leadership.term()], "an observer is to see who was elected, alone");
        leadership.resign().await.expect("it led to the end");
    }
}

/// C40: a candidate is elected even after an acquisition of the same client gave up its place in the queue.
pub async fn c40_a_candidate_behind_one_that_gave_up_is_elected(harness: &dyn Harness) {
    let (one, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let holder = other.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    let election = one.election(&name).ttl(harness.long_ttl()).label("elected");
    let waits = one.acquire(patient(&name, harness.long_ttl()));
    let (gave_up, elected) = tokio::join!(timeout(harness.moment(), waits), async {
        let candidate = election.campaign();
        tokio::pin!(candidate);
        let early = timeout(harness.moment() * 2, &mut candidate).await;
        assert!(early.is_err(), "another holds the lock: {early:?}");
        holder.release().await.expect("held to the end");
        candidate.await
    });
    assert!(gave_up.is_err(), "another holds the lock: {gave_up:?}");
    let leadership = elected.expect("its turn comes");
    let leader = election.leader().await.expect("an answer").map(term_and_label);
    assert_eq!(leader, Some((leadership.term(), "elected".to_owned())), "it is to be shown");
    leadership.resign().await.expect("it led to the end");
}

/// Returns an election by a client with its own connection. A dead leader would lead for longer than any case takes.
async fn election(harness: &dyn Harness, name: &LockName) -> Election {
    client(harness).await.election(name).ttl(harness.limit() * 10)
}

fn term_and_label(leader: Leader) -> (FencingToken, String) {
    (leader.term, leader.label.as_str().to_owned())
}

/// Returns the terms that are shown until a leader with this label appears.
async fn seen_until(
    harness: &dyn Harness,
    observer: &mut Observer,
    label: &str,
) -> Vec<FencingToken> {
    let mut terms = Vec::new();
    let seen = async {
        loop {
            let Some(leader) = observer.next().await.expect("it goes on") else { continue };
            terms.push(leader.term);
            if leader.label.as_str() == label {
                return;
            }
        }
    };
    let seen = timeout(harness.limit(), seen).await;
    assert!(seen.is_ok(), "an observer is to see the last leader, {label}");
    terms
}

fn assert_growing(terms: &[FencingToken]) {
    let growing = terms.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(growing, "an observer is to see no smaller term, and none twice: {terms:?}");
}
