//! The table of a lock's several holds in its file.
//!
//! The record of a lock has room for one hold, which is exclusive and has the last token. Other holds are in a part
//! of the file that the record names, one a line: owner, token, `exclusive`, `shared` or the number of permits,
//! slots, deadline in ns, label, time of the grant in µs, with tabs between them. A tab is a control character, so no
//! label has one.

use std::ops::Range;
use std::time::Duration;

use lock_core::backend::{Held, Holds};
use lock_core::{BackendError, Kind, Label, Permits, Slots};

use crate::fault;
use crate::locked_file::LockedFile;
use crate::machine::{micros_since_1970, time_of_micros};
use crate::parts::{Parts, offset};
use crate::queue_entry::ENTRY_BYTES;

/// Place of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldTable {
    place: u64,
    bytes: u64,
}

impl HoldTable {
    /// Writes the holds to a free part of the file.
    pub(crate) fn write(
        holds: &[Held<Duration>],
        file: &LockedFile,
        parts: &mut Parts,
    ) -> Result<Self, BackendError> {
        let text = encode(holds);
        let bytes = text.len() as u64;
        let place = parts.take(room(bytes));
        file.write_at(offset(place), text.as_bytes())?;
        Ok(Self { place, bytes })
    }

    pub(crate) fn read(self, file: &LockedFile) -> Result<Holds<Duration>, BackendError> {
        let bytes = file.read_at(offset(self.place), self.bytes as usize)?;
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() as u64 == self.bytes);
        let holds = text.and_then(|text| text.lines().map(decode).collect::<Option<Holds<_>>>());
        // A record never names an empty table.
        holds
            .filter(|holds| !holds.is_empty())
            .ok_or_else(|| fault::unusable(file.state_file(), "its holds cannot be read"))
    }

    /// Returns the part of the file that it occupies.
    pub(crate) fn part(self) -> Range<u64> {
        self.place..self.place + room(self.bytes)
    }

    /// Returns the table as a line of the record.
    pub(crate) fn to_line(self) -> String {
        format!("{} {}", self.place, self.bytes)
    }

    /// Parses a line of [`to_line`](Self::to_line); `None` for any other text.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (place, bytes) = line.split_once(' ')?;
        let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
        Some(Self { place: number(place)?, bytes: number(bytes)? })
    }
}

fn room(bytes: u64) -> u64 {
    bytes.div_ceil(ENTRY_BYTES as u64)
}

fn encode(holds: &[Held<Duration>]) -> String {
    let line = |held: &Held<Duration>| {
        let kind = match held.kind {
            Kind::OneOf(permits) => permits.of().to_string(),
            other => other.to_string(),
        };
        let (owner, nanos) = (held.owner.expose(), held.expires.as_nanos());
        let (label, since) = (held.label.as_str(), micros_since_1970(held.since));
        format!("{owner}\t{}\t{kind}\t{}\t{nanos}\t{label}\t{since}\n", held.token, held.slots)
    };
    holds.iter().map(line).collect()
}

fn decode(line: &str) -> Option<Held<Duration>> {
    let mut fields = line.split('\t');
    let (owner, token) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let (kind, slots) = kind_of(fields.next()?, fields.next()?)?;
    let expires = Duration::from_nanos(fields.next()?.parse().ok()?);
    let label = Label::new(fields.next()?).ok()?;
    let since = time_of_micros(fields.next()?.parse().ok()?);
    let complete = fields.next().is_none();
    complete.then_some(Held { owner, token, kind, slots, label, since, expires })
}

fn kind_of(kind: &str, slots: &str) -> Option<(Kind, Slots)> {
    let without_slots = match kind {
        "exclusive" => Some(Kind::Exclusive),
        "shared" => Some(Kind::Shared),
        _ => None,
    };
    if let Some(kind) = without_slots {
        return slots.is_empty().then_some((kind, Slots::NONE));
    }
    let slots = Slots::parse(slots)?;
    let taken = slots.as_slice().len().try_into().ok()?;
    let permits = Permits::new(taken, kind.parse().ok()?).ok()?;
    Some((Kind::OneOf(permits), slots))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use lock_core::{FencingToken, Label, OwnerId, Permits};

    use super::*;

    fn held(kind: Kind) -> Held<Duration> {
        Held {
            owner: OwnerId::random(),
            token: FencingToken::MAX,
            kind,
            slots: Slots::new(0..kind.slots()),
            label: Label::new("l".repeat(Label::MAX_BYTES)).expect("a label"),
            since: Some(UNIX_EPOCH + Duration::from_micros(1_795_251_431_457_582)),
            expires: Duration::from_nanos(u64::MAX),
        }
    }

    #[test]
    fn holds_are_read_as_they_were_written() {
        let all = Permits::new(Permits::MAX, Permits::MAX).expect("permits");
        let plain = Held { label: Label::default(), since: None, ..held(Kind::Shared) };
        let holds = [held(Kind::Shared), held(Kind::OneOf(all)), plain, held(Kind::Exclusive)];
        let text = encode(&holds);
        let read: Option<Vec<_>> = text.lines().map(decode).collect();
        assert_eq!(read.as_deref(), Some(&holds[..]));
    }

    #[test]
    fn what_is_not_a_hold_is_none() {
        let whole = encode(&[held(Kind::Shared)]);
        let whole = whole.trim_end();
        let cut = whole.rsplit_once('\t').expect("fields").0;
        let longer = format!("{whole}\t");
        let slots = whole.replacen("shared\t", "shared\t0", 1);
        let unknown = whole.replacen("shared", "leased", 1);
        for bad in ["", "\t\t\t\t\t\t", cut, &longer, &slots, &unknown] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        for line in ["", "1", "x 1", "1 2 3", "-1 2", "1 4294967296"] {
            assert_eq!(HoldTable::from_line(line), None, "{line:?}");
        }
        let table = HoldTable { place: 3, bytes: 257 };
        assert_eq!(HoldTable::from_line(&table.to_line()), Some(table));
        assert_eq!(table.part(), 3..5);
    }

    /// A line that is understood is written as it was read.
    #[test]
    fn fuzz_lines() {
        const WORDS: &[&str] = &[
            "0123456789abcdef0123456789abcdef\t7\t",
            "exclusive\t",
            "shared\t",
            "5\t",
            "0,2\t",
            "\t",
            "7",
            "me\t",
            ",",
            "0123456789abcdef0123456789abcdef\t7\t5\t0,2\t",
            "18446744073709551615",
            "0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef\t7\texclusive\t\t9\tme\t",
        ];
        lock_fuzz::check(|parts| {
            let line = lock_fuzz::text(WORDS, parts);
            let _ = HoldTable::from_line(&line).map(|table| (table.part(), table.to_line()));
            let Some(held) = decode(&line) else { return };
            assert_eq!(
                decode(encode(std::slice::from_ref(&held)).trim_end_matches('\n')),
                Some(held)
            );
        });
    }
}
