//! The protocol of a quorum, and others with one part taken out or changed, each of which must fail.

/// Rule that the servers follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Protocol,
    /// A vote that restores a hold is a vote like any other. A renewal counts each server that answers. An eviction
    /// deletes keys, and is owed to no server.
    AboveTheCounter,
    /// A vote that restores a hold passes a counter of the same ballot. A server that is out counts for renewals.
    EqualCounter,
    /// As `EqualCounter`, but the end of a hold lifts the counter above its ballot.
    EndAboveBallot,
    /// As `EndAboveBallot`, but a server that is out does not count for renewals.
    EndAboveBallotInOnly,
    /// No server remembers the holds that ended.
    NoEnds,
    /// A server that is let in votes at once.
    VotesAtOnce,
    /// A server is let in as soon as it is seen to be new.
    LetInAtOnce,
    /// A server that is let in has no floor.
    NoFloor,
}

/// Kind of a message to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Vote,
    /// A vote that restores a hold.
    Restore,
    Extend,
    /// The renewal of an earlier round, whose answer nobody counts.
    LateExtend,
    /// The end of a failed attempt.
    Back,
    /// The end of a hold by its client.
    Release,
    /// The end of a hold by an operator.
    Evict,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Vote,
        Self::Restore,
        Self::Extend,
        Self::LateExtend,
        Self::Back,
        Self::Release,
        Self::Evict,
    ];
}

impl Rule {
    /// Returns true if the rule has the numbers of the holds that ended, and counts no server that is out.
    fn is_complete(self) -> bool {
        use Rule::*;
        matches!(self, Protocol | VotesAtOnce | LetInAtOnce | NoFloor)
    }

    /// Returns true if the end of a hold leaves its ballot.
    pub(crate) fn remembers_ends(self) -> bool {
        self.is_complete()
    }

    /// Returns the counter after a message that ends an attempt or a hold.
    pub(crate) fn lifted(self, ballot: u8, ends: bool) -> u8 {
        ballot + u8::from(ends && matches!(self, Self::EndAboveBallot | Self::EndAboveBallotInOnly))
    }

    /// Returns true if a vote with `ballot` may restore a hold on a server where the key is free.
    pub(crate) fn restores(self, ballot: u8, counter: u8, floor: u8, ended: u8) -> bool {
        match self {
            Self::AboveTheCounter => ballot > counter.max(floor),
            Self::EqualCounter | Self::EndAboveBallot | Self::EndAboveBallotInOnly => {
                ballot >= counter
            }
            Self::NoEnds => true,
            _ => ballot > ended,
        }
    }

    /// Returns true if a server counts for renewals.
    pub(crate) fn counts(self, is_in: bool, is_out: bool) -> bool {
        match self {
            Self::AboveTheCounter => true,
            Self::EqualCounter | Self::EndAboveBallot => is_in,
            _ => is_in && !is_out,
        }
    }

    /// Returns true if an eviction is owed to servers that are silent.
    pub(crate) fn owes_evictions(self) -> bool {
        self != Self::AboveTheCounter
    }
}
