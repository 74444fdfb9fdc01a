//! C40: one of many processes leads, and all see the same leaders.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::{Election, LockClient};
use lock_testkit::{child, eventually};

use super::{Fixture, NAME, client, ttl};

const CANDIDATES: usize = 5;

/// Interval of an observer's looks.
const POLL: Duration = Duration::from_millis(50);

/// Campaigns with its process id as label, and leads until it is killed; prints each leader that it sees.
pub(super) async fn campaign_and_observe() {
    let client = client().await;
    tokio::join!(campaign(&client), observe(&client));
}

fn election(client: &LockClient) -> Election {
    client.election(NAME).ttl(ttl())
}

/// Campaigns anew after a loss: a slow machine delays renewals.
async fn campaign(client: &LockClient) {
    let election = election(client).label(std::process::id().to_string());
    loop {
        let leadership = election.campaign().await.expect("its turn comes");
        child::say(&format!("leads in {}", leadership.term()));
        leadership.lost().await;
    }
}

async fn observe(client: &LockClient) {
    let mut observer = election(client).observe().poll_every(POLL);
    loop {
        if let Some(leader) = observer.next().await.expect("an answer") {
            child::say(&format!("sees {} of {}", leader.term, leader.label));
        }
    }
}

/// A candidate, and its output so far.
struct Candidate {
    child: child::Child,
    /// The term in which it leads.
    leads: Option<u64>,
    /// The terms that it saw, each with the process id of the leader.
    seen: Vec<(u64, u32)>,
}

impl Candidate {
    fn start(fixture: &Fixture, ttl: Duration) -> Self {
        Self { child: fixture.spawn("candidate", ttl), leads: None, seen: Vec::new() }
    }

    /// Reads until it has seen a leader after `term`. It then knows if it is the leader itself.
    async fn sees_one_after(&mut self, term: u64) -> (u64, u32) {
        loop {
            let knows = |seen, pid| pid != self.child.pid() || self.leads == Some(seen);
            if let Some(&(seen, pid)) = self.seen.last()
                && seen > term
                && knows(seen, pid)
            {
                return (seen, pid);
            }
            self.hear().await;
        }
    }

    async fn hear(&mut self) {
        let line = self.child.line().await;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["leads", "in", term] => self.leads = term.parse().ok(),
            ["sees", term, "of", pid] => {
                self.seen.push((number(term), u32::try_from(number(pid)).expect("a process id")));
            }
            _ => panic!("not a line of a candidate: {line}"),
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Waits until all see the same leader after `term`. A leader that has lost its lease, or whose grant had no answer, has
/// a successor that some see later than others.
async fn all_see_one_after(mut term: u64, candidates: &mut [Candidate]) -> (u64, u32) {
    loop {
        let seen = join_all(candidates.iter_mut().map(|one| one.sees_one_after(term))).await;
        let newest = seen.iter().max().copied().expect("a candidate");
        if seen.iter().all(|one| *one == newest) {
            return newest;
        }
        term = newest.0 - 1;
    }
}

async fn a_killed_leader_is_followed_by_another(fixture: Fixture) {
    let ttl = Duration::from_secs(4);
    let mut candidates: Vec<_> = (0..CANDIDATES).map(|_| Candidate::start(&fixture, ttl)).collect();
    let (mut term, mut struck) = (0, None::<Instant>);
    while candidates.len() > 1 {
        let (newest, pid) = all_see_one_after(term, &mut candidates).await;
        if let Some(waited) = struck.map(|struck| struck.elapsed()) {
            assert!(waited < fixture.bound(ttl), "nobody led for {waited:?}");
        }
        assert!(newest > term, "{newest} after {term}");
        term = newest;
        let leader = candidates.iter().position(|one| one.child.pid() == pid);
        let mut leader = candidates.swap_remove(leader.expect("one of them leads"));
        leader.child.kill().await;
        struck = Some(Instant::now());
    }
    let (last, pid) = candidates[0].sees_one_after(term).await;
    assert_eq!(pid, candidates[0].child.pid(), "the one that is left leads");
    let terms: Vec<u64> = candidates[0].seen.iter().map(|(term, _)| *term).collect();
    assert!(terms.is_sorted() && terms.last() == Some(&last), "{terms:?}");
}

on_each_store!(c40_a_killed_leader_is_followed_by_another: a_killed_leader_is_followed_by_another);

/// C40, C28: the first candidate is stopped when the leader resigns. This delays the next one by a TTL at the most.
async fn a_candidate_that_stands_still_costs_a_ttl(fixture: Fixture) {
    let (ttl, limit) = (Duration::from_secs(4), Duration::from_secs(60));
    let locks = leasehold::connect(&fixture.url).await.expect("a connection");
    let election = locks.election(NAME).ttl(limit * 10).label(std::process::id().to_string());
    let leadership = election.campaign().await.expect("nobody else");
    let mut candidates = Vec::new();
    for waiting in 1..=2 {
        candidates.push(Candidate::start(&fixture, ttl));
        eventually("it is in the queue", limit, async || {
            let seen = locks.admin().inspect(NAME).await.expect("an answer");
            seen.waiters.is_none_or(|waiters| waiters >= waiting)
        })
        .await;
    }
    candidates[0].child.stop();
    let term = leadership.term().get();
    leadership.resign().await.expect("it led to the end");
    let resigned = Instant::now();
    while candidates[1].leads.is_none() {
        candidates[1].hear().await;
    }
    let waited = resigned.elapsed();
    assert!(candidates[1].leads > Some(term));
    assert!(waited < fixture.bound(ttl), "nobody led for {waited:?}");
}

on_each_store!(c40_a_candidate_that_stands_still_costs_a_ttl: a_candidate_that_stands_still_costs_a_ttl);
