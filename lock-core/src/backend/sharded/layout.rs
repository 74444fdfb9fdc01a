//! Which shard has which name, and which one had it.

use super::member::Member;
use super::rendezvous::score;
use super::shard::Standing;
use crate::model::{LockError, LockName, TokenDurability};

/// The shards, and the two lists that they make: the former one, and the one to come. They are the same unless
/// names move.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) members: Vec<Member>,
}

/// Where the lock of a name is.
pub(super) struct Place<'a> {
    /// The shard that has it.
    pub(super) home: &'a Member,
    /// The shard that had it, if that is another.
    pub(super) former: Option<&'a Member>,
}

impl Layout {
    /// The shards, if locks can be spread over them.
    pub(super) fn new(members: Vec<Member>) -> Result<Self, LockError> {
        let layout = Self { members };
        match layout.problem() {
            None => Ok(layout),
            Some(problem) => Err(LockError::Config { message: format!("shards: {problem}") }),
        }
    }

    /// The place of a name.
    pub(super) fn place(&self, name: &LockName) -> Place<'_> {
        let home = self.winner(name, Standing::Leaving);
        let former = self.winner(name, Standing::Joining);
        Place { home, former: (former.id != home.id).then_some(former) }
    }

    /// The number of a shard among all.
    pub(super) fn index(&self, member: &Member) -> usize {
        self.members.iter().position(|other| other.id == member.id).unwrap_or_default()
    }

    /// Whether names move.
    pub(super) fn moves(&self) -> bool {
        self.members.iter().any(|member| member.standing != Standing::Staying)
    }

    /// The shard that has a name in the list of those that do not stand as `absent`.
    fn winner(&self, name: &LockName, absent: Standing) -> &Member {
        let listed = self.members.iter().filter(|member| member.standing != absent);
        let best = listed.max_by_key(|member| (score(&member.id, name), &member.id));
        // There is one: a list without any is refused.
        best.unwrap_or(&self.members[0])
    }

    fn problem(&self) -> Option<String> {
        let has_all_but = |absent| self.members.iter().any(|member| member.standing != absent);
        if !has_all_but(Standing::Leaving) || !has_all_but(Standing::Joining) {
            return Some("there has to be one before and after the move".to_owned());
        }
        let mut ids: Vec<_> = self.members.iter().map(|member| &member.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(format!("two are called `{}`", pair[0]));
        }
        self.problem_of_tokens()
    }

    /// C22: a name that moves from one store to another must not find a smaller token there.
    fn problem_of_tokens(&self) -> Option<String> {
        let counted = |member: &&Member| {
            member.backend.capabilities().tokens == TokenDurability::CounterAndClock
        };
        let count = self.members.iter().filter(counted).count();
        if count == self.members.len() {
            None
        } else if count > 0 {
            Some(
                "the tokens of some begin at the time, those of others do not: a name that \
                  moves between them could be granted a smaller token"
                    .to_owned(),
            )
        } else if self.moves() {
            Some(
                "no name can move between stores whose tokens do not begin at the time: what they \
                  count is not comparable"
                    .to_owned(),
            )
        } else {
            None
        }
    }
}
