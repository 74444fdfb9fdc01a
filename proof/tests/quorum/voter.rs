//! One server: its data, and the effect of each message.

use crate::rule::{Kind, Rule};

/// Most holds of a model.
pub(crate) const HOLDS: usize = 3;

/// Data that a restart may keep. All spans are in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Data {
    /// Time for which the server does not vote yet.
    pub(crate) out: u8,
    /// Longest time left of the holds that it granted or extended.
    pub(crate) held: u8,
    /// The hold that has the key, and the time left.
    pub(crate) key: Option<u8>,
    left: u8,
    pub(crate) counter: u8,
    /// Greatest ballot of a hold that ended here.
    pub(crate) ended: u8,
    pub(crate) high: u8,
    pub(crate) floor: u8,
    /// The holds whose end the server knows, one bit each: not part of the protocol.
    knows: u8,
}

/// Part of a server's answer that a client counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    #[default]
    Nothing,
    /// The server granted, or has the hold.
    Stands,
    /// The server lacks the hold.
    Lacks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Voter {
    pub(crate) is_in: bool,
    pub(crate) data: Data,
    inbox: u32,
    /// Answers that the client of each hold counts now.
    pub(crate) answers: [Answer; HOLDS],
    /// Time until it may be let in, once it is seen to be new.
    pub(crate) waits: Option<u8>,
    /// True if an operator has its answer to the eviction.
    pub(crate) has_evicted: bool,
    pub(crate) file: Option<Data>,
}

impl Data {
    /// Returns the data of a server that has granted a hold.
    pub(crate) fn with(hold: u8, ballot: u8, ttl: u8) -> Self {
        let mut data = Self::default();
        data.grant(hold, ballot, ttl);
        data
    }

    fn grant(&mut self, hold: u8, ballot: u8, ttl: u8) {
        (self.counter, self.high) = (self.counter.max(ballot), self.high.max(ballot));
        (self.key, self.left, self.held) = (Some(hold), ttl, self.held.max(ttl));
    }

    fn forget_the_key(&mut self) {
        (self.key, self.left) = (None, 0);
    }

    pub(crate) fn knows_the_end_of(&self, hold: u8) -> bool {
        self.knows >> hold & 1 == 1
    }

    fn age(&mut self) {
        (self.out, self.held) = (self.out.saturating_sub(1), self.held.saturating_sub(1));
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.key = None;
        }
    }
}

impl Voter {
    pub(crate) fn new(data: Data, file: Option<Data>) -> Self {
        let answers = [Answer::Nothing; HOLDS];
        Self { is_in: true, data, inbox: 0, answers, waits: None, has_evicted: false, file }
    }

    /// Carries a message out. Returns the answer.
    pub(crate) fn carry_out(
        &mut self,
        rule: Rule,
        (kind, hold): (Kind, u8),
        ballot: u8,
        ttl: u8,
    ) -> Answer {
        match kind {
            Kind::Vote | Kind::Restore => {
                let restores = kind == Kind::Restore;
                let votes = self.is_in && self.data.out == 0;
                if votes && self.grants(rule, hold, ballot, restores) {
                    self.data.grant(hold, ballot, ttl);
                    return Answer::Stands;
                }
            }
            Kind::Extend | Kind::LateExtend => return self.extend(rule, hold, ttl),
            Kind::Back => self.end(rule, hold, ballot, false),
            Kind::Release => self.end(rule, hold, ballot, true),
            Kind::Evict if rule.owes_evictions() => self.end(rule, hold, ballot, true),
            Kind::Evict => {
                if self.data.key == Some(hold) {
                    self.data.forget_the_key();
                    self.data.knows |= 1 << hold;
                }
            }
        }
        Answer::Nothing
    }

    fn grants(&self, rule: Rule, hold: u8, ballot: u8, restores: bool) -> bool {
        let Data { key, counter, floor, .. } = self.data;
        match key {
            Some(holder) => holder == hold,
            None if restores => self.may_restore(rule, ballot),
            None => ballot > counter.max(floor),
        }
    }

    pub(crate) fn may_restore(&self, rule: Rule, ballot: u8) -> bool {
        let Data { counter, floor, ended, .. } = self.data;
        rule.restores(ballot, counter, floor, ended)
    }

    fn extend(&mut self, rule: Rule, hold: u8, ttl: u8) -> Answer {
        if !rule.counts(self.is_in, self.data.out > 0) {
            return Answer::Nothing;
        }
        self.data.held = self.data.held.max(ttl);
        if self.data.key != Some(hold) {
            return Answer::Lacks;
        }
        self.data.left = ttl;
        Answer::Stands
    }

    fn end(&mut self, rule: Rule, hold: u8, ballot: u8, ends: bool) {
        if self.data.key == Some(hold) {
            self.data.forget_the_key();
        }
        self.data.counter = self.data.counter.max(rule.lifted(ballot, ends));
        if ends {
            self.data.knows |= 1 << hold;
        }
        if ends && rule.remembers_ends() {
            self.data.ended = self.data.ended.max(ballot);
            self.data.high = self.data.high.max(ballot);
        }
    }

    /// Starts the server again with this data. It receives only messages that are owed to it.
    pub(crate) fn restart(&mut self, rule: Rule, data: Data) {
        let is_owed = |&(kind, _): &(Kind, u8)| match kind {
            Kind::Back | Kind::Release => true,
            Kind::Evict => rule.owes_evictions(),
            _ => false,
        };
        let owed: Vec<_> = self.letters().filter(is_owed).collect();
        (self.is_in, self.data, self.waits, self.inbox) = (false, data, None, 0);
        owed.into_iter().for_each(|letter| self.post(letter));
    }

    /// Lets the server in, as others tell. Each has the longest time of its holds, and its greatest ballot.
    pub(crate) fn let_in(&mut self, rule: Rule, told: &[Self]) {
        let of = |voter: &Self| {
            (voter.data.held.max(voter.data.out), voter.data.high.max(voter.data.floor))
        };
        let out = told.iter().map(|voter| of(voter).0).max().unwrap_or(0).max(self.data.held);
        let floor = told.iter().map(|voter| of(voter).1).max().unwrap_or(0).max(self.data.floor);
        (self.is_in, self.waits) = (true, None);
        self.data.out = if rule == Rule::VotesAtOnce { 0 } else { out };
        self.data.floor = if rule == Rule::NoFloor { 0 } else { floor };
    }

    /// Lets one tick pass.
    pub(crate) fn age(&mut self) {
        self.data.age();
        if let Some(file) = &mut self.file {
            file.age();
        }
        self.waits = self.waits.map(|left| left.saturating_sub(1));
    }

    /// Forgets the answers to a former round. What is under way becomes late.
    pub(crate) fn begin_round(&mut self, hold: u8) {
        self.answers[usize::from(hold)] = Answer::Nothing;
        if self.take((Kind::Extend, hold)) {
            self.post((Kind::LateExtend, hold));
        }
    }

    pub(crate) fn post(&mut self, letter: (Kind, u8)) {
        self.inbox |= bit(letter);
    }

    /// Takes a letter out of the inbox; returns true if it was there.
    pub(crate) fn take(&mut self, letter: (Kind, u8)) -> bool {
        let was_there = self.inbox & bit(letter) != 0;
        self.inbox &= !bit(letter);
        was_there
    }

    pub(crate) fn letters(&self) -> impl Iterator<Item = (Kind, u8)> + use<> {
        let inbox = self.inbox;
        let all =
            Kind::ALL.into_iter().flat_map(|kind| (0..HOLDS as u8).map(move |hold| (kind, hold)));
        all.filter(move |letter| inbox & bit(*letter) != 0)
    }
}

fn bit((kind, hold): (Kind, u8)) -> u32 {
    1 << (kind as u32 * HOLDS as u32 + u32::from(hold))
}
