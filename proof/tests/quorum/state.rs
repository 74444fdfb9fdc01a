//! The state of the model: its servers, its holds, and what an operator has ended.

use crate::rule::Kind;
use crate::voter::{Answer, HOLDS, Voter};
use crate::world::{Budget, Fault};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking,
    Holding,
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) phase: Phase,
    pub(crate) ballot: u8,
    /// Time until its client does not believe in it.
    pub(crate) deadline: u8,
    /// Time until the TTL of this round is over, and until its answers do not count.
    pub(crate) round: u8,
    pub(crate) counts: u8,
    pub(crate) is_renewing: bool,
    /// Greatest token granted before it asked.
    pub(crate) base: u8,
    /// True if this round began after the eviction of the hold was done.
    pub(crate) is_after_eviction: bool,
    pub(crate) rounds: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Eviction {
    None,
    /// The hold, and the time left for a majority to answer.
    Runs(u8, u8),
    Done(u8),
    Failed(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) voters: Vec<Voter>,
    pub(crate) holds: [Hold; HOLDS],
    pub(crate) eviction: Eviction,
    pub(crate) granted: u8,
    pub(crate) budget: Budget,
    pub(crate) fault: Option<Fault>,
}

impl Eviction {
    pub(crate) fn is_of(self, hold: usize) -> bool {
        match self {
            Self::None => false,
            Self::Runs(of, _) | Self::Done(of) | Self::Failed(of) => usize::from(of) == hold,
        }
    }
}

impl State {
    pub(crate) fn believes(&self, hold: usize) -> bool {
        self.holds[hold].phase == Phase::Holding && self.holds[hold].deadline > 0
    }

    /// Returns the holds whose clients believe in them, but for one that an operator evicts.
    pub(crate) fn believers(&self) -> impl Iterator<Item = usize> {
        let believes = |hold: &usize| self.believes(*hold) && !self.eviction.is_of(*hold);
        (0..HOLDS).filter(believes)
    }

    pub(crate) fn count(&self, hold: usize, answer: Answer) -> usize {
        self.voters.iter().filter(|voter| voter.answers[hold] == answer).count()
    }

    pub(crate) fn post_to_all(&mut self, letter: (Kind, u8)) {
        self.voters.iter_mut().for_each(|voter| voter.post(letter));
    }

    pub(crate) fn end_round(&mut self, hold: usize) {
        let me = &mut self.holds[hold];
        (me.round, me.counts, me.is_renewing, me.is_after_eviction) = (0, 0, false, false);
        self.voters.iter_mut().for_each(|voter| voter.begin_round(hold as u8));
    }

    pub(crate) fn end(&mut self, hold: usize) {
        self.end_round(hold);
        (self.holds[hold].phase, self.holds[hold].deadline) = (Phase::Over, 0);
    }

    /// Lets one tick pass.
    pub(crate) fn tick(&mut self) {
        self.voters.iter_mut().for_each(Voter::age);
        for hold in &mut self.holds {
            for left in [&mut hold.deadline, &mut hold.round, &mut hold.counts] {
                *left = left.saturating_sub(1);
            }
        }
        self.eviction = match self.eviction {
            Eviction::Runs(hold, 0) => Eviction::Failed(hold),
            Eviction::Runs(hold, left) => Eviction::Runs(hold, left - 1),
            other => other,
        };
        if let Eviction::Failed(_) = self.eviction {
            self.voters.iter_mut().for_each(|voter| voter.has_evicted = false);
        }
    }
}
