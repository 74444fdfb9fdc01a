//! Record in a lock's file: the last token, the holders, and the place of the rest.

use std::time::Duration;

use lock_core::backend::Held;
use lock_core::{FencingToken, Kind, Label, LockName, Slots};

use crate::hold_table::HoldTable;
use crate::machine::{Written, micros_since_1970, time_of_micros};
use crate::queue::Queue;

/// Stands for an owner if the lock has several holders.
const SEVERAL: &str = "several";

/// A record of a lock's file.
///
/// It has lines of text. Names and labels hold no control characters, so no line can run into the next:
///
/// | held by | lines |
/// | --- | --- |
/// | nobody | name, token |
/// | one, exclusively, under that token | name, token, owner, deadline in ns, when it was written, label, since when in µs |
/// | others | name, token, `several`, when it was written, where the [table](HoldTable) of the holds lies |
///
/// If there are waiters, a last line names the entries of the file that are the queue.
///
/// A later format may change anything behind the [mark](crate::slots) of the slots, and then must have another mark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) name: LockName,
    /// The last granted token. It stays when the hold ends, so that the next token is greater.
    pub(crate) token: FencingToken,
    pub(crate) holders: Holders,
    /// Waiters for the end of a hold. Empty if there is no hold.
    pub(crate) queue: Queue,
}

/// Holders of a lock, whose holds may be over, and the time of writing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Holders {
    Nobody,
    One(Held<Duration>, Written),
    Several(HoldTable, Written),
}

impl Holders {
    pub(crate) fn written(&self) -> Option<&Written> {
        match self {
            Self::Nobody => None,
            Self::One(_, written) | Self::Several(_, written) => Some(written),
        }
    }

    fn encode(&self) -> String {
        match self {
            Self::Nobody => String::new(),
            Self::One(held, written) => {
                let (owner, nanos) = (held.owner.expose(), held.expires.as_nanos());
                let (label, since) = (held.label.as_str(), micros_since_1970(held.since));
                format!("\n{owner}\n{nanos}\n{}\n{label}\n{since}", written.to_line())
            }
            Self::Several(table, written) => {
                format!("\n{SEVERAL}\n{}\n{}", written.to_line(), table.to_line())
            }
        }
    }

    fn decode<'a>(token: FencingToken, lines: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let owner = match lines.next() {
            None => return Some(Self::Nobody),
            Some(SEVERAL) => {
                let written = Written::from_line(lines.next()?)?;
                return Some(Self::Several(HoldTable::from_line(lines.next()?)?, written));
            }
            Some(owner) => owner.parse().ok()?,
        };
        let expires = Duration::from_nanos(lines.next()?.parse().ok()?);
        let written = Written::from_line(lines.next()?)?;
        let label = Label::new(lines.next()?).ok()?;
        let since = time_of_micros(lines.next()?.parse().ok()?);
        let (kind, slots) = (Kind::Exclusive, Slots::NONE);
        Some(Self::One(Held { owner, token, kind, slots, label, since, expires }, written))
    }
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("{}\n{}", self.name.as_str(), self.token);
        text += &self.holders.encode();
        if !self.queue.is_empty() {
            text += &format!("\n{}", self.queue.to_line());
        }
        text.into_bytes()
    }

    /// Parses the bytes of [`encode`](Self::encode); `None` for any other bytes.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(payload).ok()?.split('\n');
        let name = LockName::new(lines.next()?).ok()?;
        let token = lines.next()?.parse().ok()?;
        let holders = Holders::decode(token, &mut lines)?;
        let queue = lines.next().map_or(Some(Queue::default()), Queue::from_line)?;
        let complete = lines.next().is_none();
        complete.then_some(Self { name, token, holders, queue })
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Label, LockName, OwnerId};

    use super::*;
    use crate::slots::MAX_PAYLOAD_BYTES;

    fn written() -> Written {
        let line = format!("b1946ac9-2492-4d23-8d3b-6f1e1d5f9a10 {}", u64::MAX);
        Written::from_line(&line).expect("when it was written")
    }

    /// Returns the largest possible record with these holders.
    fn largest(holders: Holders) -> Record {
        Record {
            name: LockName::new("n".repeat(LockName::MAX_BYTES)).expect("a name"),
            token: FencingToken::MAX,
            holders,
            queue: Queue::from_line(&format!("{} {1} {1}", u32::MAX - 1, u32::MAX))
                .expect("a queue"),
        }
    }

    fn one() -> Holders {
        let held = Held {
            owner: OwnerId::random(),
            token: FencingToken::MAX,
            kind: Kind::Exclusive,
            slots: Slots::NONE,
            label: Label::new("l".repeat(Label::MAX_BYTES)).expect("a label"),
            since: time_of_micros(u64::MAX / 1000),
            expires: Duration::from_nanos(u64::MAX),
        };
        Holders::One(held, written())
    }

    fn several() -> Holders {
        let table = HoldTable::from_line(&format!("{0} {0}", u32::MAX)).expect("a table");
        Holders::Several(table, written())
    }

    #[test]
    fn the_largest_record_fits_and_is_read_again() {
        for holders in [Holders::Nobody, one(), several()] {
            let mut record = largest(holders);
            if record.holders == Holders::Nobody {
                record.queue = Queue::default();
            }
            let payload = record.encode();
            assert!(payload.len() <= MAX_PAYLOAD_BYTES, "{}", payload.len());
            assert_eq!(Record::decode(&payload), Some(record));
        }
    }

    #[test]
    fn what_is_not_a_record_is_none() {
        let whole = String::from_utf8(largest(one()).encode()).expect("text");
        let without_queue = whole.rsplit_once('\n').expect("lines").0;
        let without_since = without_queue.rsplit_once('\n').expect("lines").0;
        let unsound = ["2 1 3", "0 2 1", "1 1 1", "0 1", "0 1 1 1", "0 1 1 ", "0 1 4294967296", ""];
        let unsound = unsound.map(|queue| format!("{without_queue}\n{queue}"));
        let longer = format!("{whole}\n");
        let bad = ["", "a", "a\n", "a\n0", "a\n1\n", "a\n1\nseveral", without_since, &longer];
        let no_time = whole.replacen(&format!(" {}", u64::MAX), "", 1);
        for bad in bad.into_iter().chain([&*no_time]).chain(unsound.iter().map(|bad| &**bad)) {
            assert_eq!(Record::decode(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Record::decode(b"\xff\n1"), None);
    }

    /// The first format. A change of it needs another mark of the slots.
    #[test]
    fn an_exclusive_hold_is_written_like_this() {
        let owner: OwnerId = "00112233445566778899aabbccddeeff".parse().expect("an owner");
        let Holders::One(held, _) = one() else { unreachable!() };
        let held = Held { owner, label: Label::new("me").expect("a label"), ..held };
        let held = Held { expires: Duration::from_nanos(7), since: time_of_micros(9), ..held };
        let queue = Queue::from_line("0 1 16").expect("a queue");
        let written = Written::from_line("- 5").expect("when it was written");
        let (name, holders) = (LockName::new("a").expect("a name"), Holders::One(held, written));
        let record = Record { name, token: FencingToken::MAX, holders, queue };
        let text = String::from_utf8(record.encode()).expect("text");
        let owner = owner.expose();
        assert_eq!(text, format!("a\n9007199254740991\n{owner}\n7\n- 5\nme\n9\n0 1 16"));
    }

    /// A record that is understood is written as it was read.
    #[test]
    fn fuzz_records() {
        const WORDS: &[&str] = &[
            "a\n7",
            "\n",
            "several",
            "0123456789abcdef0123456789abcdef\n",
            "- 5\n",
            "0 1 16",
            "0 2",
            " ",
            "me\n",
            "7\n",
            "a\n7\n0123456789abcdef0123456789abcdef\n7\n- 5\nme\n9",
            "\n0 1 16",
            "4294967295",
            "18446744073709551615",
            "a\n7\nseveral\n- 5\n0 1",
        ];
        lock_fuzz::check(|parts| {
            let Some(record) = Record::decode(lock_fuzz::text(WORDS, parts).as_bytes()) else {
                return;
            };
            let _ = (record.queue.part(), record.queue.is_empty());
            assert_eq!(Record::decode(&record.encode()), Some(record));
        });
    }
}
