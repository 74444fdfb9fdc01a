//! Specification of a lock (C33 to C38), as plain as possible: slow, in milliseconds, and without any code of the
//! backends. The memory backend is tested against it.

use std::collections::{BTreeSet, HashSet};

use crate::model::Kind;

/// A lock, its holders and its waiters. Each client is a number.
#[derive(Debug, Default)]
pub(super) struct Specification {
    pub(super) now: u64,
    /// The holders, in the order of their grants.
    pub(super) holders: Vec<Hold>,
    /// The waiters, in the order of their arrival, with their requests.
    pub(super) queue: Vec<Asked>,
    /// Clients that have gone without a release.
    gone: HashSet<usize>,
    withdrawn: HashSet<usize>,
    /// Number of grants so far.
    grants: usize,
    /// Grants to waiters in the last step, by client: the number of the grant, and its slots.
    pub(super) told: Vec<(usize, usize, Vec<u16>)>,
}

/// One client's request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) who: usize,
    pub(super) kind: Kind,
    pub(super) ttl: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hold {
    pub(super) who: usize,
    pub(super) kind: Kind,
    pub(super) slots: Vec<u16>,
    /// Number of the grant.
    pub(super) number: usize,
    pub(super) ends: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum StepAnswer {
    Granted(usize, Vec<u16>),
    /// With the number of waiters before it, if it waits, and the numbers of permits that the holders and the first
    /// waiter count, unless it is this one.
    Busy(Option<usize>, u16, u16),
    Refused,
    /// True if there was something to extend or to end.
    Done(bool),
    Evicted(Vec<usize>),
    Nothing,
}

impl Specification {
    pub(super) fn ask(&mut self, asked: Asked, waits: bool) -> StepAnswer {
        if self.withdrawn.contains(&asked.who) {
            return StepAnswer::Refused;
        }
        self.let_in();
        if let Some(own) = self.holders.iter_mut().find(|hold| hold.who == asked.who) {
            own.ends = own.ends.max(self.now + asked.ttl);
            return StepAnswer::Granted(own.number, own.slots.clone());
        }
        if self.queue.is_empty() && self.fits(asked.kind) {
            let (number, slots) = self.grant(asked);
            return StepAnswer::Granted(number, slots);
        }
        let held = self.holders.first().map_or(0, |hold| hold.kind.permits());
        let place = waits.then(|| self.place_of(asked));
        let first = self.queue.first().filter(|first| first.who != asked.who);
        StepAnswer::Busy(place, held, first.map_or(0, |first| first.kind.permits()))
    }

    pub(super) fn extend(&mut self, who: usize, number: usize, ttl: u64) -> StepAnswer {
        self.end_expired();
        let is_it = |hold: &&mut Hold| hold.who == who && hold.number == number;
        let hold = self.holders.iter_mut().find(is_it);
        StepAnswer::Done(hold.map(|hold| hold.ends = hold.ends.max(self.now + ttl)).is_some())
    }

    pub(super) fn end(&mut self, ends: impl Fn(usize) -> bool) -> Vec<usize> {
        self.end_expired();
        let ended = self.holders.extract_if(.., |hold| ends(hold.who));
        let ended = ended.map(|hold| hold.who).collect();
        self.let_in();
        ended
    }

    pub(super) fn withdraw(&mut self, who: usize) -> StepAnswer {
        self.withdrawn.insert(who);
        self.queue.retain(|waiter| waiter.who != who);
        self.end(|holder| holder == who);
        StepAnswer::Nothing
    }

    pub(super) fn leave(&mut self, who: usize) -> StepAnswer {
        self.gone.insert(who);
        StepAnswer::Nothing
    }

    pub(super) fn pass(&mut self, millis: u64) -> StepAnswer {
        self.now += millis;
        StepAnswer::Nothing
    }

    fn end_expired(&mut self) {
        self.holders.retain(|hold| self.now < hold.ends);
    }

    /// C34: grants to all at the head that fit together, and to nobody behind a waiter.
    fn let_in(&mut self) {
        self.end_expired();
        while let Some(&first) = self.queue.first() {
            if !self.gone.contains(&first.who) {
                if !self.fits(first.kind) {
                    return;
                }
                let (number, slots) = self.grant(first);
                self.told.push((first.who, number, slots));
            }
            self.queue.remove(0);
        }
    }

    /// C33: returns true if the kind fits beside all holders, with enough permits left.
    fn fits(&self, kind: Kind) -> bool {
        let taken: u16 = self.holders.iter().map(|hold| hold.kind.slots()).sum();
        let beside = |held: Kind| match kind {
            Kind::Exclusive => false,
            Kind::Shared => held == Kind::Shared,
            Kind::OneOf(_) => held.permits() == kind.permits(),
        };
        self.holders.iter().all(|hold| beside(hold.kind)) && taken + kind.slots() <= kind.permits()
    }

    /// C36: grants with the lowest free slots.
    fn grant(&mut self, asked: Asked) -> (usize, Vec<u16>) {
        let taken = |slot: &u16| self.holders.iter().any(|hold| hold.slots.contains(slot));
        let free = (0..asked.kind.permits()).filter(|slot| !taken(slot));
        let slots: Vec<u16> = free.take(asked.kind.slots().into()).collect();
        let (number, ends) = (self.grants, self.now + asked.ttl);
        self.grants += 1;
        let Asked { who, kind, .. } = asked;
        self.holders.push(Hold { who, kind, slots: slots.clone(), number, ends });
        (number, slots)
    }

    /// C33: returns each number of permits that a holder or a waiter counts, ascending.
    pub(super) fn numbers(&self) -> Vec<u16> {
        let live = self.holders.iter().filter(|hold| self.now < hold.ends).map(|hold| hold.kind);
        let kinds = live.chain(self.queue.iter().map(|waiter| waiter.kind));
        let numbers: BTreeSet<u16> =
            kinds.map(Kind::permits).filter(|number| *number > 0).collect();
        numbers.into_iter().collect()
    }

    fn place_of(&mut self, asked: Asked) -> usize {
        self.queue.retain(|waiter| !self.gone.contains(&waiter.who));
        let place = self.queue.iter().position(|waiter| waiter.who == asked.who);
        place.unwrap_or_else(|| {
            self.queue.push(asked);
            self.queue.len() - 1
        })
    }
}
