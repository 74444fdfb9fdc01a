//! Clients with a hold each, an operator, and the servers: all steps that may come next.

use crate::rule::{Kind, Rule};
use crate::state::{Eviction, Hold, Phase, State};
use crate::voter::{Answer, Data, HOLDS, Voter};

/// Time for which answers count, and for which a restarted server waits, in ticks.
const COUNTS_FOR: u8 = 1;

/// Data that a server has after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    /// All that it had written when it last wrote its file.
    File,
    Everything,
}

/// Number of steps of each kind that may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) restarts: u8,
    pub(crate) saves: u8,
    pub(crate) evictions: u8,
    pub(crate) releases: u8,
}

/// A model: its rule, its size, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) rule: Rule,
    pub(crate) voters: usize,
    /// TTL in ticks.
    pub(crate) ttl: u8,
    /// The ballots that each hold may ask with.
    pub(crate) holds: &'static [&'static [u8]],
    /// Number of servers on which the first hold stands at the start, as their files say.
    pub(crate) stands_on: usize,
    /// Number of renewals of each hold.
    pub(crate) rounds: u8,
    pub(crate) kept: &'static [Kept],
    pub(crate) budget: Budget,
    /// The only fault that counts; all if it is left out.
    pub(crate) fault: Option<Fault>,
    /// True if servers are interchangeable: the order of their numbers may change in each step.
    pub(crate) sorts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// Two hold at the same time, and none of them was evicted.
    TwoBelieve,
    /// A token is not greater than one that was granted before it was asked for.
    TokenFalls,
    /// A hold is extended by a renewal that was sent after its eviction was done.
    EvictedGoesOn,
    /// A late request brings a hold back to a server that knew its end.
    Revived,
    /// A server that votes, and where the lock is free, cannot get a hold back.
    NotRestorable,
}

/// One step. Numbers are of holds and of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ask(usize, u8),
    Granted(usize),
    GiveUp(usize),
    Renew(usize),
    Extended(usize),
    ToldLost(usize),
    RoundEnds(usize),
    Over(usize),
    Release(usize),
    Evict(usize),
    Evicted,
    /// A message arrives at a server, and its answer comes.
    Arrive(Kind, u8, usize),
    /// A message arrives at a server, and its answer is lost.
    ArriveUnheard(Kind, u8, usize),
    Save(usize),
    Restart(usize, Kept),
    /// A client sees that the server is new: by a vote, a renewal, or the doctor.
    Seen(usize),
    /// The server is let in; the others in this set of bits have told.
    LetIn(usize, u8),
    Tick,
}

impl Settings {
    fn majority(&self) -> usize {
        self.voters / 2 + 1
    }

    pub(crate) fn start(&self) -> State {
        let ballot = self.holds[0][0];
        let mut holds = [Hold { rounds: self.rounds, ..Hold::default() }; HOLDS];
        let voter = |number| {
            let data = Data::with(0, ballot, self.ttl);
            match number < self.stands_on {
                true => Voter::new(data, Some(data)),
                false => Voter::new(Data::default(), None),
            }
        };
        if self.stands_on > 0 {
            let (phase, deadline) = (Phase::Holding, self.ttl);
            holds[0] = Hold { phase, ballot, deadline, ..holds[0] };
        }
        let voters = (0..self.voters).map(voter).collect();
        let granted = if self.stands_on > 0 { ballot } else { 0 };
        let (eviction, budget, fault) = (Eviction::None, self.budget, None);
        State { voters, holds, eviction, granted, budget, fault }
    }

    /// Returns all steps that are possible, and the states after them.
    pub(crate) fn steps(&self, state: &State) -> Vec<(Step, State)> {
        let mut steps = vec![Step::Evicted, Step::Tick];
        for hold in 0..self.holds.len() {
            steps.extend(self.holds[hold].iter().map(|ballot| Step::Ask(hold, *ballot)));
            let of_hold = [
                Step::Granted,
                Step::GiveUp,
                Step::Renew,
                Step::Extended,
                Step::ToldLost,
                Step::RoundEnds,
                Step::Over,
                Step::Release,
                Step::Evict,
            ];
            steps.extend(of_hold.map(|step| step(hold)));
        }
        for (number, voter) in state.voters.iter().enumerate() {
            for (kind, hold) in voter.letters() {
                steps.push(Step::Arrive(kind, hold, number));
                if matches!(kind, Kind::Vote | Kind::Extend | Kind::Evict) {
                    steps.push(Step::ArriveUnheard(kind, hold, number));
                }
            }
            steps.extend([Step::Save(number), Step::Seen(number)]);
            steps.extend(self.kept.iter().map(|kept| Step::Restart(number, *kept)));
            steps.extend(self.tellers(state, number).map(|told| Step::LetIn(number, told)));
        }
        let after = |step: Step| Some((step, self.after(state, step)?));
        steps.into_iter().filter_map(after).collect()
    }

    /// Returns the sets of others that may tell a restarted server: all of them, or a majority that votes.
    fn tellers(&self, state: &State, number: usize) -> impl Iterator<Item = u8> + use<> {
        let bits = |is_one: &dyn Fn(usize) -> bool| {
            let others = (0..state.voters.len()).filter(|other| *other != number);
            others.filter(|other| is_one(*other)).fold(0, |set: u8, other| set | 1 << other)
        };
        let (all, voting) = (bits(&|_| true), bits(&|other| state.voters[other].is_in));
        let majority = self.majority() as u32;
        let suffices =
            move |set: &u8| *set == all || *set & !voting == 0 && set.count_ones() == majority;
        let waited = state.voters[number].waits == Some(0);
        (0..=all).filter(move |set| waited && suffices(set))
    }

    /// Returns the state after a step; `None` if the step is not possible.
    pub(crate) fn after(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Ask(..) | Step::Granted(_) | Step::GiveUp(_) | Step::Release(_) => {
                self.claim(&mut next, step)?
            }
            Step::Renew(hold)
            | Step::Extended(hold)
            | Step::ToldLost(hold)
            | Step::RoundEnds(hold)
            | Step::Over(hold) => self.renewal(&mut next, hold, step)?,
            Step::Evict(_) | Step::Evicted => self.eviction(&mut next, step)?,
            Step::Arrive(kind, hold, to) => self.arrive(&mut next, (kind, hold), to, true)?,
            Step::ArriveUnheard(kind, hold, to) => {
                self.arrive(&mut next, (kind, hold), to, false)?
            }
            Step::Save(number) => {
                next.budget.saves = next.budget.saves.checked_sub(1)?;
                next.voters[number].file = Some(next.voters[number].data);
            }
            Step::Restart(number, kept) => self.restart(&mut next, number, kept)?,
            Step::Seen(number) => {
                let voter = &mut next.voters[number];
                if voter.is_in || voter.waits.is_some() {
                    return None;
                }
                voter.waits = Some(if self.rule == Rule::LetInAtOnce { 0 } else { COUNTS_FOR });
            }
            Step::LetIn(number, told) => {
                let tells = |other: &usize| told >> other & 1 == 1;
                let told: Vec<_> =
                    (0..self.voters).filter(tells).map(|other| next.voters[other]).collect();
                next.voters[number].let_in(self.rule, &told);
            }
            Step::Tick => next.tick(),
        }
        self.look(&mut next);
        if self.sorts {
            next.voters.sort_unstable();
        }
        (next != *state).then_some(next)
    }

    /// A claim asks, is granted, is given up, or is released.
    fn claim(&self, state: &mut State, step: Step) -> Option<()> {
        match step {
            Step::Ask(hold, ballot) if state.holds[hold].phase == Phase::Idle => {
                let (phase, base, rounds) = (Phase::Asking, state.granted, self.rounds);
                let (round, counts) = (self.ttl, COUNTS_FOR);
                state.holds[hold] =
                    Hold { phase, ballot, base, round, counts, rounds, ..Hold::default() };
                state.post_to_all((Kind::Vote, hold as u8));
            }
            Step::Granted(hold) => {
                let Hold { phase, counts, round, ballot, base, .. } = state.holds[hold];
                let is_asking = phase == Phase::Asking && counts > 0 && round > 0;
                if !is_asking || state.count(hold, Answer::Stands) < self.majority() {
                    return None;
                }
                if ballot <= base && !state.eviction.is_of(hold) {
                    self.found(state, Fault::TokenFalls);
                }
                if state.believers().any(|other| other != hold) {
                    self.found(state, Fault::TwoBelieve);
                }
                (state.holds[hold].phase, state.holds[hold].deadline) = (Phase::Holding, round);
                state.granted = state.granted.max(ballot);
                state.end_round(hold);
            }
            Step::GiveUp(hold) if state.holds[hold].phase == Phase::Asking => {
                state.end(hold);
                state.post_to_all((Kind::Back, hold as u8));
            }
            Step::Release(hold) if state.believes(hold) => {
                state.budget.releases = state.budget.releases.checked_sub(1)?;
                state.end(hold);
                state.post_to_all((Kind::Release, hold as u8));
            }
            _ => return None,
        }
        Some(())
    }

    /// A hold is renewed, or ends by a renewal or its deadline.
    fn renewal(&self, state: &mut State, hold: usize, step: Step) -> Option<()> {
        let Hold { phase, deadline, counts, is_renewing, rounds, .. } = state.holds[hold];
        let stands = state.count(hold, Answer::Stands) >= self.majority();
        let extends = is_renewing && deadline > 0 && counts > 0 && stands;
        let lacks = state.count(hold, Answer::Lacks) > self.voters - self.majority();
        let is_lost = is_renewing && !extends && lacks;
        match step {
            _ if phase != Phase::Holding => return None,
            Step::Renew(_) if deadline > 0 && rounds > 0 && !is_renewing => {
                state.end_round(hold);
                let me = &mut state.holds[hold];
                (me.is_renewing, me.round, me.counts) = (true, self.ttl, COUNTS_FOR);
                me.is_after_eviction = state.eviction == Eviction::Done(hold as u8);
                // Nine stand for any number.
                me.rounds -= u8::from(rounds < 9);
                state.post_to_all((Kind::Extend, hold as u8));
            }
            Step::Extended(_) if extends => self.extend(state, hold),
            Step::ToldLost(_) if is_lost => state.end(hold),
            Step::RoundEnds(_) if is_renewing && !extends && !is_lost && counts == 0 => {
                state.end_round(hold);
            }
            Step::Over(_) if deadline == 0 => state.end(hold),
            _ => return None,
        }
        Some(())
    }

    /// Extends a hold, and asks the servers that lack it for their votes.
    fn extend(&self, state: &mut State, hold: usize) {
        let Hold { deadline, round, is_after_eviction, .. } = state.holds[hold];
        let others = state.believers().any(|other| other != hold);
        if is_after_eviction {
            self.found(state, Fault::EvictedGoesOn);
        }
        if others && !state.eviction.is_of(hold) {
            self.found(state, Fault::TwoBelieve);
        }
        state.holds[hold].deadline = deadline.max(round);
        for voter in &mut state.voters {
            // C11: the hold is not ended now. The votes may arrive much later.
            if voter.answers[hold] == Answer::Lacks {
                voter.post((Kind::Restore, hold as u8));
            }
        }
        state.end_round(hold);
    }

    /// An eviction begins with the hold that a majority showed, and is done when a majority has answered.
    fn eviction(&self, state: &mut State, step: Step) -> Option<()> {
        match (step, state.eviction) {
            (Step::Evict(hold), Eviction::None) if state.holds[hold].phase == Phase::Holding => {
                state.budget.evictions = state.budget.evictions.checked_sub(1)?;
                state.eviction = Eviction::Runs(hold as u8, COUNTS_FOR);
                state.post_to_all((Kind::Evict, hold as u8));
            }
            (Step::Evicted, Eviction::Runs(hold, 1..)) => {
                if state.voters.iter().filter(|voter| voter.has_evicted).count() < self.majority() {
                    return None;
                }
                state.eviction = Eviction::Done(hold);
                for voter in &mut state.voters {
                    voter.has_evicted = false;
                    if !self.rule.owes_evictions() {
                        voter.take((Kind::Evict, hold));
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn arrive(
        &self,
        state: &mut State,
        letter: (Kind, u8),
        to: usize,
        is_heard: bool,
    ) -> Option<()> {
        let (kind, hold) = letter;
        let Hold { phase, ballot, counts, is_renewing, .. } = state.holds[usize::from(hold)];
        let voter = &mut state.voters[to];
        if !voter.take(letter) {
            return None;
        }
        let knew = voter.data.key != Some(hold) && voter.data.knows_the_end_of(hold);
        let answer = voter.carry_out(self.rule, letter, ballot, self.ttl);
        let is_awaited = counts > 0
            && match kind {
                Kind::Vote => phase == Phase::Asking,
                Kind::Extend => is_renewing,
                _ => false,
            };
        if is_heard && is_awaited && answer != Answer::Nothing {
            voter.answers[usize::from(hold)] = answer;
        }
        if is_heard && kind == Kind::Evict && matches!(state.eviction, Eviction::Runs(..)) {
            voter.has_evicted = true;
        }
        let is_vote = matches!(kind, Kind::Vote | Kind::Restore);
        if is_vote && knew && answer == Answer::Stands {
            self.found(state, Fault::Revived);
        }
        Some(())
    }

    /// A majority never restarts within one admission.
    fn restart(&self, state: &mut State, number: usize, kept: Kept) -> Option<()> {
        let others = state.voters.iter().enumerate().filter(|(other, _)| *other != number);
        if others.filter(|(_, voter)| voter.is_in).count() < self.majority() {
            return None;
        }
        state.budget.restarts = state.budget.restarts.checked_sub(1)?;
        let voter = &mut state.voters[number];
        let data = match kept {
            Kept::Nothing => Data::default(),
            Kept::File => voter.file?,
            Kept::Everything => voter.data,
        };
        voter.restart(self.rule, data);
        Some(())
    }

    /// Looks for a hold that a server cannot get back.
    fn look(&self, state: &mut State) {
        let votes = |voter: &&Voter| voter.is_in && voter.data.out == 0 && voter.data.key.is_none();
        let is_refused = |hold: usize| {
            let ballot = state.holds[hold].ballot;
            state.voters.iter().filter(votes).any(|voter| !voter.may_restore(self.rule, ballot))
        };
        if state.believers().any(is_refused) {
            self.found(state, Fault::NotRestorable);
        }
    }

    fn found(&self, state: &mut State, fault: Fault) {
        if self.fault.is_none_or(|only| only == fault) {
            state.fault = Some(fault);
        }
    }
}
