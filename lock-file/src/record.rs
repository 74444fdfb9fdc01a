//! Record in a lock's file: its value, and the places of the rest.

use lock_core::LockName;
use lock_core::backend::LockValue;

use crate::hold_table::HoldTable;
use crate::machine::Written;
use crate::queue::Queue;

/// A record of a lock's file, in lines of text: name, when it was written, the entries of the file that are the queue,
/// the part of the file that is the [table](HoldTable) of the holds, and the [text](LockValue::to_text) of the value,
/// without holds if there is a table. Names and labels hold no control characters, so no line can run into the next.
///
/// A later format may change anything behind the [mark](crate::slots) of the slots, and then must have another mark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) name: LockName,
    pub(crate) written: Written,
    /// Waiters for the end of a hold. Empty if there is no hold.
    pub(crate) queue: Queue,
    pub(crate) table: Option<HoldTable>,
    pub(crate) value: LockValue,
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let table = self.table.map(HoldTable::to_line).unwrap_or_default();
        let (name, written, queue) =
            (self.name.as_str(), self.written.to_line(), self.queue.to_line());
        format!("{name}\n{written}\n{queue}\n{table}\n{}", self.value.to_text()).into_bytes()
    }

    /// Parses the bytes of [`encode`](Self::encode); `None` for any other bytes.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(payload).ok()?.splitn(5, '\n');
        let name = LockName::new(lines.next()?).ok()?;
        let written = Written::from_line(lines.next()?)?;
        let queue = Queue::from_line(lines.next()?)?;
        let table = match lines.next()? {
            "" => None,
            line => Some(HoldTable::from_line(line)?),
        };
        let value = LockValue::from_text(lines.next()?)?;
        // A table has all holds.
        let whole = table.is_none() || value.holds().is_empty();
        whole.then_some(Self { name, written, queue, table, value })
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{FencingToken, Label, LockName};

    use super::*;
    use crate::slots::MAX_PAYLOAD_BYTES;

    const WRITTEN: &str = "b1946ac9-2492-4d23-8d3b-6f1e1d5f9a10 18446744073709551615";

    /// Returns the largest record of an exclusive hold.
    fn largest() -> String {
        let (name, last) = ("n".repeat(LockName::MAX_BYTES), FencingToken::MAX);
        let (owner, label) = ("0".repeat(32), "l".repeat(Label::MAX_BYTES));
        let queue = format!("{} {1} {1}", u32::MAX - 1, u32::MAX);
        let end = u64::MAX;
        format!(
            "{name}\n{WRITTEN}\n{queue}\n\n{last}\n{owner}\t{last}\texclusive\t\t{end}\t{label}\t{end}"
        )
    }

    #[test]
    fn the_largest_record_of_one_hold_or_a_table_fits_and_is_read_again() {
        let one = largest();
        let table = format!("{0} {0} {0} 1", u32::MAX);
        let (start, _) = one.rsplit_once('\n').expect("lines");
        let several = start.replacen("\n\n", &format!("\n{table}\n"), 1);
        for text in [one, several] {
            assert!(text.len() <= MAX_PAYLOAD_BYTES, "{}", text.len());
            let record = Record::decode(text.as_bytes()).expect("a record");
            assert_eq!(record.encode(), text.as_bytes());
        }
    }

    #[test]
    fn what_is_not_a_record_is_none() {
        let whole = largest();
        let (start, value) = whole.split_once("\n\n").expect("no table");
        let (start, _) = start.rsplit_once('\n').expect("lines");
        let unsound = ["2 1 3", "0 2 1", "1 1 1", "0 1", "0 1 1 1", "0 1 1 ", "0 1 4294967296", ""];
        let unsound = unsound.map(|queue| format!("{start}\n{queue}\n\n{value}"));
        let both = whole.replacen("\n\n", "\n0 1 9 0\n", 1);
        let longer = format!("{whole}\n");
        let no_time = whole.replacen(&format!(" {}", u64::MAX), "", 1);
        let bad = ["", "a", "a\n- 5\n", "a\n- 5\n0 0 0\n\n0", &both, &longer, &no_time];
        for bad in bad.into_iter().chain(unsound.iter().map(|bad| &**bad)) {
            assert_eq!(Record::decode(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Record::decode(b"\xff\n1"), None);
    }

    /// The first format. A change of it needs another mark of the slots.
    #[test]
    fn a_lock_is_written_like_this() {
        let free = "a\n- 00000000000000000005\n0 0 0\n\n7";
        let busy = "a\n- 00000000000000000005\n0 1 16\n3 2 257 1\n7";
        for text in [free, busy] {
            let record = Record::decode(text.as_bytes()).expect("a record");
            assert_eq!(String::from_utf8(record.encode()).as_deref(), Ok(text));
        }
    }

    /// A record that is understood is written as it was read.
    #[test]
    fn fuzz_records() {
        const WORDS: &[&str] = &[
            "a\n- 5\n",
            "0 0 0\n",
            "0 1 16\n",
            "0 1 9 0\n",
            "\n",
            " ",
            "7",
            "me\t",
            "\t",
            "a\n- 5\n0 0 0\n\n7\n0123456789abcdef0123456789abcdef\t7\texclusive\t\t7\tme\t9",
            "a\n- 5\n0 1 16\n0 1 9 1\n7",
            "4294967295",
            "18446744073709551615",
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
