//! The table of a lock's holds that find no room in its record.
//!
//! The table has two halves of the same length, like the slots of the file: a change is written into the half that is
//! not in force. Both are written when the table is made, so that no renewal needs a block of the disk.

use std::ops::Range;

use lock_core::BackendError;
use lock_core::backend::LockValue;

use crate::fault;
use crate::locked_file::LockedFile;
use crate::parts::{Parts, offset};
use crate::queue_entry::ENTRY_BYTES;

/// The half that is in force, and the length of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldTable {
    /// The first entry of the table.
    place: u64,
    /// Number of entries in a half.
    room: u64,
    /// Length of the text, in bytes.
    bytes: u64,
    is_second: bool,
}

impl HoldTable {
    /// Writes the holds of `value` beside those of the table in force. A table without room for them is made anew in a
    /// free part of the file, twice as large as they need.
    pub(crate) fn write(
        value: &LockValue,
        in_force: Option<Self>,
        file: &LockedFile,
        parts: &mut Parts,
    ) -> Result<Self, BackendError> {
        let text = value.to_text();
        let bytes = text.len() as u64;
        if let Some(old) = in_force.filter(|old| bytes <= old.half_bytes()) {
            let new = Self { bytes, is_second: !old.is_second, ..old };
            file.write_at(new.offset(), text.as_bytes())?;
            return Ok(new);
        }
        let room = (2 * bytes).div_ceil(ENTRY_BYTES as u64);
        let new = Self { place: parts.take(2 * room), room, bytes, is_second: false };
        let mut both = text.into_bytes();
        both.resize(2 * new.half_bytes() as usize, 0);
        file.write_at(new.offset(), &both)?;
        Ok(new)
    }

    /// Returns the value with its holds. Its last token is that of the record, `record`.
    pub(crate) fn read(
        self,
        record: &LockValue,
        file: &LockedFile,
    ) -> Result<LockValue, BackendError> {
        let bytes = file.read_at(self.offset(), self.bytes as usize)?;
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() as u64 == self.bytes);
        let value = text.and_then(LockValue::from_text);
        // A record never names an empty table.
        let fits = |value: &LockValue| {
            value.last_token() == record.last_token() && !value.holds().is_empty()
        };
        value
            .filter(fits)
            .ok_or_else(|| fault::unusable(file.state_file(), "its holds cannot be read"))
    }

    /// Returns the part of the file that it occupies.
    pub(crate) fn part(self) -> Range<u64> {
        self.place..self.place + 2 * self.room
    }

    fn half_bytes(self) -> u64 {
        self.room * ENTRY_BYTES as u64
    }

    fn offset(self) -> u64 {
        offset(self.place + if self.is_second { self.room } else { 0 })
    }

    /// Returns the table as a line of the record.
    pub(crate) fn to_line(self) -> String {
        let half = u8::from(self.is_second);
        format!("{} {} {} {half}", self.place, self.room, self.bytes)
    }

    /// Parses a line of [`to_line`](Self::to_line); `None` for any other text.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let words: Vec<u64> = line
            .split(' ')
            .map(|word| word.parse::<u32>().ok().map(u64::from))
            .collect::<Option<_>>()?;
        let &[place, room, bytes, half @ (0 | 1)] = &words[..] else { return None };
        Some(Self { place, room, bytes, is_second: half == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_table_is_none() {
        for line in
            ["", "1", "x 1 1 0", "1 2 3 2", "1 2 3", "1 2 3 0 0", "-1 2 3 0", "1 4294967296 1 0"]
        {
            assert_eq!(HoldTable::from_line(line), None, "{line:?}");
        }
        let table = HoldTable { place: 3, room: 2, bytes: 257, is_second: true };
        assert_eq!(HoldTable::from_line(&table.to_line()), Some(table));
        assert_eq!(table.part(), 3..7);
    }
}
