//! The claims on one lock, in order.

use lock_core::{Kind, OwnerId, Permits};

/// Number of characters of an owner in the name of a node.
const OWNER: usize = 32;

/// A claim on a lock: a child of the lock's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Name of the node.
    pub(crate) child: String,
    /// `None` if the node is not one of ours.
    pub(crate) owner: Option<OwnerId>,
    pub(crate) kind: Kind,
    /// The server's number, or -1 for an unknown node.
    sequence: i64,
}

/// The claims on a lock. The first holds it, together with the claims of the same kind behind it, as far as there
/// is room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Vec<Entry>);

impl Queue {
    pub(crate) fn new(children: Vec<String>) -> Self {
        let mut entries: Vec<_> = children.into_iter().map(Entry::new).collect();
        entries
            .sort_by(|one, other| (one.sequence, &one.child).cmp(&(other.sequence, &other.child)));
        Self(entries)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn first(&self) -> Option<&Entry> {
        self.0.first()
    }

    /// Returns the number of claims before the first claim of `owner`.
    pub(crate) fn place(&self, owner: OwnerId) -> Option<usize> {
        self.0.iter().position(|entry| entry.owner == Some(owner))
    }

    /// Returns the number of claims at the front that may hold beside each other.
    pub(crate) fn front(&self) -> usize {
        let beside = |kind: Kind| match (kind, self.first().map(|first| first.kind)) {
            (Kind::OneOf(one), Some(Kind::OneOf(first))) => one.of() == first.of(),
            (kind, first) => kind == Kind::Shared && first == Some(kind),
        };
        let beside = self.0.iter().skip(1).take_while(|entry| beside(entry.kind)).count();
        (1 + beside).min(self.0.len())
    }

    /// Returns the nodes of all claims of `owner`: more than one if the reply to a request was lost.
    pub(crate) fn of(&self, owner: OwnerId) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.owner == Some(owner))
    }
}

impl Entry {
    fn new(child: String) -> Self {
        let known = child.split_at_checked(OWNER).and_then(|(owner, rest)| {
            let (kind, rest) = read_kind(rest.strip_prefix('-')?);
            let (sequence, moves) = split_moves(rest);
            let _: u32 = moves.parse().ok()?;
            // After 2,147,483,647 the server goes on with -2,147,483,648.
            let sequence = sequence.parse::<i32>().ok()?.cast_unsigned();
            Some((Some(owner.parse().ok()?), kind, i64::from(sequence)))
        });
        // C49: an unknown node counts as a holder, and claims wait for it.
        let (owner, kind, sequence) = known.unwrap_or((None, Kind::Exclusive, -1));
        Self { child, owner, kind, sequence }
    }

    /// Returns true if the server may give its sequence to several claims, or a lower one to a later claim.
    pub(crate) fn is_beyond_order(&self) -> bool {
        self.sequence >= i64::from(i32::MAX)
    }

    /// Returns the path of a claim's node after a move to another session. The claim keeps its place.
    ///
    /// The path differs, so that nobody takes the new node for the old one: the client of the old session deletes
    /// that one at the end of its TTL.
    pub(crate) fn moved(path: &str) -> String {
        let (path, moves) = split_moves(path);
        format!("{path}.{}", moves.parse().map_or(1, |moves: u32| moves.wrapping_add(1)))
    }

    /// Returns the start of the names of `owner`'s nodes, to which the server adds the sequence.
    pub(crate) fn prefix(owner: OwnerId, kind: Kind) -> String {
        let owner = owner.expose();
        match kind {
            Kind::Shared => format!("{owner}-shared-"),
            Kind::OneOf(permits) => format!("{owner}-{}of{}-", permits.taken(), permits.of()),
            _ => format!("{owner}-"),
        }
    }
}

/// Returns the kind of a claim, and the rest of its node's name. An unknown kind stays in the rest.
fn read_kind(text: &str) -> (Kind, &str) {
    let permits = |kind: &str| {
        let (taken, of) = kind.split_once("of")?;
        Permits::new(taken.parse().ok()?, of.parse().ok()?).ok()
    };
    let exclusive = (Kind::Exclusive, text);
    match text.split_once('-') {
        Some(("shared", rest)) => (Kind::Shared, rest),
        Some((kind, rest)) => permits(kind).map_or(exclusive, |of| (Kind::OneOf(of), rest)),
        None => exclusive,
    }
}

/// Returns the sequence, and the number of moves.
fn split_moves(text: &str) -> (&str, &str) {
    text.rsplit_once('.').unwrap_or((text, "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c27_claims_stand_in_the_order_of_their_sequence() {
        let [one, two] = [OwnerId::random(), OwnerId::random()];
        let node = |owner, sequence: &str| Entry::prefix(owner, Kind::Exclusive) + sequence;
        let nodes = [node(one, "0000000010"), node(two, "0000000009"), node(one, "0000000011")];
        let queue = Queue::new(nodes.to_vec());
        assert_eq!((queue.place(two), queue.place(one)), (Some(0), Some(1)));
        assert_eq!(queue.of(one).count(), 2);
        assert_eq!(queue.place(OwnerId::random()), None);
    }

    /// S3: a claim at the end of the sequence comes before no holder, and takes nothing.
    #[test]
    fn s3_a_claim_at_the_end_of_the_sequence_comes_last() {
        let (holder, late) = (OwnerId::random(), OwnerId::random());
        for kind in [Kind::Exclusive, Kind::Shared] {
            let node = |owner, sequence: &str| Entry::prefix(owner, kind) + sequence;
            for beyond in ["2147483647", "-2147483648", "-000000001"] {
                let nodes = vec![node(late, beyond), node(holder, "2147483646")];
                let queue = Queue::new(nodes);
                assert_eq!((queue.place(holder), queue.place(late)), (Some(0), Some(1)));
                let beyond = queue.entries().iter().map(Entry::is_beyond_order);
                assert_eq!(beyond.collect::<Vec<_>>(), [false, true]);
            }
        }
    }

    #[test]
    fn c36_a_claim_that_moves_keeps_its_place() {
        let [one, two] = [OwnerId::random(), OwnerId::random()];
        let node = |owner, sequence: &str| Entry::prefix(owner, Kind::Exclusive) + sequence;
        let moved = Entry::moved(&Entry::moved(&node(one, "0000000001")));
        assert_eq!(moved, node(one, "0000000001.2"));
        let queue = Queue::new(vec![node(two, "0000000002"), moved]);
        assert_eq!((queue.place(one), queue.place(two)), (Some(0), Some(1)));
    }

    #[test]
    fn c33_those_of_one_kind_at_the_front_may_hold_beside_each_other() {
        let of = |n| Kind::OneOf(Permits::new(1, n).expect("permits"));
        let front = |kinds: &[Kind]| {
            let node = |(at, kind): (usize, &Kind)| {
                format!("{}{at:010}", Entry::prefix(OwnerId::random(), *kind))
            };
            Queue::new(kinds.iter().enumerate().map(node).collect()).front()
        };
        let (exclusive, shared) = (Kind::Exclusive, Kind::Shared);
        assert_eq!(front(&[]), 0);
        assert_eq!(front(&[exclusive, exclusive]), 1);
        assert_eq!(front(&[shared, shared, exclusive, shared]), 2);
        assert_eq!(front(&[of(2), of(2), of(2), of(3)]), 3);
        assert_eq!(front(&[exclusive, shared, shared]), 1);
    }

    #[test]
    fn c49_an_unknown_node_comes_first() {
        let owner = OwnerId::random();
        for foreign in [
            "",
            "lock-0000000001",
            "ü",
            &owner.expose(),
            &Entry::prefix(owner, Kind::Exclusive),
            &format!("{}-3of2-0000000001", owner.expose()),
            &format!("{}-upgradable-0000000001", owner.expose()),
        ] {
            let known = Entry::prefix(owner, Kind::Exclusive) + "0000000000";
            let queue = Queue::new(vec![known, foreign.to_owned()]);
            assert_eq!(queue.first().and_then(|first| first.owner), None, "{foreign}");
            assert_eq!(queue.place(owner), Some(1));
        }
    }

    /// All nodes form a queue. A node that moves keeps its owner and its sequence.
    #[test]
    fn fuzz_queues() {
        const WORDS: &[&str] = &[
            "0123456789abcdef0123456789abcdef",
            "-",
            "0000000010",
            ".",
            ".1",
            "lock",
            "4294967295",
        ];
        lock_fuzz::check(|nodes: &Vec<lock_fuzz::Parts>| {
            let nodes = nodes.iter().map(|parts| lock_fuzz::text(WORDS, parts)).collect();
            let queue = Queue::new(nodes);
            assert!(
                queue
                    .entries()
                    .iter()
                    .rev()
                    .is_sorted_by(|one, other| one.sequence >= other.sequence)
            );
            for entry in queue.entries().iter().filter(|entry| entry.owner.is_some()) {
                let moved = Entry::new(Entry::moved(&entry.child));
                assert_eq!(
                    (moved.owner, moved.sequence),
                    (entry.owner, entry.sequence),
                    "{entry:?}"
                );
            }
        });
    }
}
