//! One history on one store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::super::steps::{claim, fresh_name};
use super::effect::{Effect, Held, Seen};
use super::history::Step;
use super::member::{Attempted, Member, MemberState};
use lock_core::backend::{Claim, WAITER_LIVENESS};
use lock_core::testing::FakeClock;
use lock_core::{
    Clock, DistributedLock, FencingToken, Holder, Kind, LockName, MemoryBackend, Moment,
    SystemClock, Whom,
};

/// Passing of time.
enum Time {
    /// On the model.
    Virtual(Arc<FakeClock>),
    Real,
}

impl Time {
    fn now(&self) -> Moment {
        match self {
            Self::Virtual(clock) => clock.now(),
            Self::Real => SystemClock.now(),
        }
    }

    async fn pass(&self, span: Duration) {
        match self {
            Self::Virtual(clock) => clock.advance(span),
            Self::Real => sleep(span).await,
        }
    }
}

pub(super) struct Run {
    members: Vec<Member>,
    time: Time,
    ttl: Duration,
    /// Time limit of everything without its own.
    limit: Duration,
    /// Waiters, in the order of their arrival.
    line: Vec<usize>,
    /// Time of their last look.
    looked: Moment,
    /// The claim whose hold is not renewed.
    dying: Option<usize>,
    /// The tokens of each lock, in the order of their grants.
    granted: HashMap<LockName, Vec<FencingToken>>,
    /// The locks with a hold that ended without its owner. If a session ends with the hold, it may take a moment
    /// until others see it.
    unsettled: HashSet<LockName>,
    /// True if a hold or a place in the queue may have expired because the test was late. Then the history proves
    /// nothing.
    pub(super) was_too_slow: bool,
}

impl Run {
    /// Returns a run on the memory backend, where time passes as the steps say.
    pub(super) fn of_the_model(kinds: &[Kind], ttl: Duration) -> Self {
        let clock = Arc::new(FakeClock::new());
        let model = Arc::new(MemoryBackend::with_clock(clock.clone()));
        Self::new([model.clone(), model], kinds, ttl, Time::Virtual(clock))
    }

    /// Returns a run on a store, which two hosts reach. An event later than `limit` counts as missing.
    pub(super) fn of(
        stores: [Arc<dyn DistributedLock>; 2],
        kinds: &[Kind],
        ttl: Duration,
        limit: Duration,
    ) -> Self {
        Self { limit: ttl + limit, ..Self::new(stores, kinds, ttl, Time::Real) }
    }

    fn new(
        stores: [Arc<dyn DistributedLock>; 2],
        kinds: &[Kind],
        ttl: Duration,
        time: Time,
    ) -> Self {
        let (names, looked) = ([fresh_name(), fresh_name()], time.now());
        let member = |(i, kind): (usize, &Kind)| {
            let mut claim = claim(&names[i % 2], ttl);
            claim.kind = *kind;
            Member::new(stores[i / 2 % 2].clone(), claim, looked)
        };
        let members = kinds.iter().enumerate().map(member).collect();
        let (line, dying, granted, unsettled) = Default::default();
        let (limit, was_too_slow) = (ttl * 2, false);
        Self { members, time, ttl, limit, line, looked, dying, granted, unsettled, was_too_slow }
    }

    /// Takes a step, and returns its effects on all claims.
    pub(super) async fn take(&mut self, step: Step) -> Seen {
        let mut seen = Seen { answer: Effect::Nothing, told: Vec::new() };
        match step {
            Step::Die(i) => seen.answer = self.die(i, &mut seen.told).await,
            step => self.ask(step, &mut seen).await,
        }
        seen.told.sort_by_key(|(i, _)| *i);
        seen
    }

    /// Looks again at a result that may take the server a moment.
    pub(super) async fn look_again(&mut self, step: Step, seen: &mut Seen, expected: &Seen) {
        let may_settle = matches!(seen.answer, Effect::NotGranted | Effect::Held(..));
        let is_asked_again = may_settle && self.is_unsettled(step)
            || seen.answer.has_more_waiters_than(&expected.answer);
        match is_asked_again {
            true => self.ask(step, seen).await,
            false => self.renew_and_look(&mut seen.told).await,
        }
        seen.told.sort_by_key(|(i, _)| *i);
    }

    /// Returns true if another look may show something else.
    pub(super) fn may_change(&self, step: Step) -> bool {
        !self.line.is_empty() || self.is_unsettled(step)
    }

    fn is_unsettled(&self, step: Step) -> bool {
        self.unsettled.contains(&self.members[step.claim()].claim.name)
    }

    /// Numbers the grants of readers that a step lets in together as expected: their tokens may be in any order, since
    /// nobody was told of either grant before the other (S2).
    pub(super) fn number_readers_as(&mut self, expected: &Seen, seen: &mut Seen) {
        for (i, effect) in &expected.told {
            let Effect::Granted(is_to_be, _) = effect else { continue };
            let Claim { name, kind: Kind::Shared, .. } = &self.members[*i].claim else { continue };
            let numbers = seen.told.iter_mut().filter_map(|(j, effect)| {
                let other = &self.members[*j].claim;
                let is_beside = other.kind == Kind::Shared && other.name == *name;
                Some((*j, effect.number_mut().filter(|_| is_beside)?))
            });
            let mut numbers: Vec<_> = numbers.collect();
            let own = numbers.iter().position(|(j, _)| j == i);
            let other = numbers.iter().position(|(_, number)| **number == *is_to_be);
            let (Some(own), Some(other)) = (own, other) else { continue };
            let number = *numbers[own].1;
            (*numbers[other].1, *numbers[own].1) = (number, *is_to_be);
            self.granted.entry(name.clone()).or_default().swap(number, *is_to_be);
        }
    }

    /// Ends all remaining holds and waits.
    pub(super) async fn end(&mut self) {
        for member in &mut self.members {
            member.withdraw().await;
        }
    }

    async fn ask(&mut self, step: Step, seen: &mut Seen) {
        self.renew_all(&mut seen.told).await;
        let deadlines = self.deadlines();
        seen.answer = self.answer(step).await;
        self.look(&mut seen.told).await;
        self.note_if_late(&deadlines);
        // The claim was granted at its second look.
        let own = seen.told.iter().position(|(i, _)| *i == step.claim());
        if let Some(own) = own.filter(|_| seen.answer == Effect::NotGranted) {
            seen.answer = seen.told.remove(own).1;
        }
    }

    async fn answer(&mut self, step: Step) -> Effect {
        let i = step.claim();
        match (step, self.members[i].standing) {
            (Step::Release(_), MemberState::Place) => Effect::Nothing,
            (Step::Ask(_), _) => self.acquire(i, false).await,
            (Step::Wait(_), _) => self.acquire(i, true).await,
            (Step::Extend(_), _) => self.extend(i).await,
            (Step::Release(_), _) => self.release(i).await,
            (Step::Withdraw(_), _) => self.withdraw(i).await,
            (Step::Evict(_), _) => self.evict(i, &self.members[i].whom()).await,
            (Step::EvictAll(_), _) => self.evict(i, &Whom::All).await,
            (Step::Inspect(_), _) => self.inspect(i).await,
            (Step::Die(_), _) => unreachable!("a death takes more than an answer"),
        }
    }

    async fn acquire(&mut self, i: usize, waits: bool) -> Effect {
        let attempted = self.attempt(i, waits).await;
        self.outcome(i, attempted)
    }

    async fn attempt(&mut self, i: usize, waits: bool) -> Attempted {
        let now = self.time.now();
        let attempted = self.members[i].attempt(waits, now).await;
        match self.members[i].standing {
            MemberState::Place if self.line.contains(&i) => {}
            MemberState::Place => self.line.push(i),
            _ => self.line.retain(|waits| *waits != i),
        }
        attempted
    }

    fn outcome(&mut self, i: usize, attempted: Attempted) -> Effect {
        let name = self.members[i].claim.name.clone();
        match attempted {
            Attempted::Granted(grant) => {
                self.unsettled.remove(&name);
                Effect::Granted(self.number(&name, grant.token), grant.slots)
            }
            Attempted::Conflict(held) => Effect::Conflict(held),
            Attempted::Busy | Attempted::Refused => Effect::NotGranted,
        }
    }

    async fn extend(&mut self, i: usize) -> Effect {
        let (now, member) = (self.time.now(), &mut self.members[i]);
        let is_extended = member.extend().await;
        if is_extended {
            member.renewed = now;
        }
        Effect::Done(is_extended)
    }

    async fn release(&mut self, i: usize) -> Effect {
        let member = &mut self.members[i];
        let is_released = member.release().await;
        if is_released {
            member.end();
        }
        Effect::Done(is_released)
    }

    async fn withdraw(&mut self, i: usize) -> Effect {
        self.line.retain(|waits| *waits != i);
        self.members[i].withdraw().await;
        Effect::Nothing
    }

    async fn evict(&mut self, i: usize, whom: &Whom) -> Effect {
        let name = self.members[i].claim.name.clone();
        let evicted = self.members[i].evict(whom).await;
        // A token identifies a hold only within its lock: another lock may have the same token.
        let of_the_lock = |member: &&mut Member| member.is_live() && member.claim.name == name;
        for member in self.members.iter_mut().filter(of_the_lock) {
            if evicted.iter().any(|holder| holder.token == member.token) {
                member.end();
                self.unsettled.insert(name.clone());
            }
        }
        Effect::Evicted(self.held(&name, &evicted))
    }

    async fn inspect(&self, i: usize) -> Effect {
        let name = &self.members[i].claim.name;
        let state = self.members[i].inspect().await;
        Effect::Held(self.held(name, &state.holders), state.waiters.unwrap_or(0))
    }

    /// Stops renewing one of the holds until it is over. All others are renewed, and waiters look.
    async fn die(&mut self, i: usize, told: &mut Vec<(usize, Effect)>) -> Effect {
        let live: Vec<_> = (0..self.members.len()).filter(|i| self.members[*i].is_live()).collect();
        let Some(&dying) = live.get(i % live.len().max(1)) else { return Effect::Nothing };
        self.dying = Some(dying);
        let start = self.time.now();
        while self.members[dying].is_shown().await {
            let lasts = self.time.now().since(start);
            assert!(lasts < self.limit, "a hold that nobody renews is to expire: {lasts:?}");
            self.renew_and_look(told).await;
            self.time.pass(self.ttl / 10).await;
        }
        self.dying = None;
        self.members[dying].end();
        self.unsettled.insert(self.members[dying].claim.name.clone());
        self.renew_and_look(told).await;
        Effect::Died
    }

    async fn renew_and_look(&mut self, told: &mut Vec<(usize, Effect)>) {
        self.renew_all(told).await;
        let deadlines = self.deadlines();
        self.look(told).await;
        self.note_if_late(&deadlines);
    }

    /// Renews all holds that may need it, except the dying one.
    async fn renew_all(&mut self, told: &mut Vec<(usize, Effect)>) {
        self.note_if_late(&self.deadlines());
        for i in 0..self.members.len() {
            let (now, member) = (self.time.now(), &mut self.members[i]);
            if !member.is_live()
                || self.dying == Some(i)
                || now.since(member.renewed) < self.ttl / 3
            {
                continue;
            }
            let (lasted_until, is_renewed) =
                (member.renewed.after(self.ttl), member.extend().await);
            self.was_too_slow |= self.time.now().has_reached(lasted_until);
            match is_renewed {
                true => member.renewed = now,
                false => {
                    member.end();
                    told.push((i, Effect::Lost));
                }
            }
        }
    }

    /// Lets waiters look again, as clients do, until nothing changes.
    async fn look(&mut self, told: &mut Vec<(usize, Effect)>) {
        let mut news = Vec::new();
        loop {
            let known = news.len();
            for i in self.line.clone() {
                match self.attempt(i, true).await {
                    Attempted::Busy => {}
                    attempted => news.push((i, attempted)),
                }
            }
            if news.len() == known {
                break;
            }
        }
        // A waiter may have been granted the lock after its own look, and before the look of the next waiter.
        news.sort_by_key(|(i, _)| self.members[*i].token);
        for (i, attempted) in news {
            let outcome = self.outcome(i, attempted);
            told.push((i, outcome));
        }
    }

    /// Returns the least ends of the holds, and of the places in the queue.
    fn deadlines(&self) -> Vec<Moment> {
        let live = self.members.iter().enumerate();
        let live = live.filter(|(i, member)| member.is_live() && self.dying != Some(*i));
        let holds = live.map(|(_, member)| member.renewed.after(self.ttl));
        let places = self.line.first().map(|_| self.looked.after(self.ttl.min(WAITER_LIVENESS)));
        holds.chain(places).collect()
    }

    fn note_if_late(&mut self, deadlines: &[Moment]) {
        let now = self.time.now();
        self.was_too_slow |= deadlines.iter().any(|deadline| now.has_reached(*deadline));
        self.looked = now;
    }

    /// Returns the number of the grant with this token: a new token is greater than all before (C22).
    fn number(&mut self, name: &LockName, token: FencingToken) -> usize {
        let granted = self.granted.entry(name.clone()).or_default();
        granted.iter().position(|known| *known == token).unwrap_or_else(|| {
            let grows = granted.iter().all(|known| *known < token);
            assert!(grows, "each grant is to have a greater token: {token} after {granted:?}");
            granted.push(token);
            granted.len() - 1
        })
    }

    fn held(&self, name: &LockName, holders: &[Holder]) -> Vec<Held> {
        let number = |token: Option<FencingToken>| {
            let granted = self.granted.get(name)?;
            granted.iter().position(|known| Some(*known) == token)
        };
        let held = |holder: &Holder| (number(holder.token), holder.kind, holder.slots.clone());
        holders.iter().map(held).collect()
    }
}
