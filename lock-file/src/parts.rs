//! The parts of a lock's file behind its two slots: the places of the queue and of a table of holds.
//!
//! Places are counted in entries, so that the entries of a queue are adjacent.

use std::iter;
use std::ops::Range;

use crate::queue_entry::ENTRY_BYTES;
use crate::slots::FILE_BYTES;

/// Returns the offset of a place in the file.
pub(crate) const fn offset(place: u64) -> u64 {
    FILE_BYTES as u64 + place * ENTRY_BYTES as u64
}

/// The parts that must not be overwritten now: those that the valid record names, and those written since for the
/// next record. So a process that is killed at any byte leaves the parts of the valid record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(Vec<Range<u64>>);

impl Parts {
    pub(crate) fn add(&mut self, part: Range<u64>) {
        if !part.is_empty() {
            self.0.push(part);
        }
    }

    /// Takes the first free part with `room` entries, and returns its start.
    pub(crate) fn take(&mut self, room: u64) -> u64 {
        let ends = self.0.iter().map(|part| part.end);
        let is_free = |start: &u64| {
            self.0.iter().all(|part| start + room <= part.start || part.end <= *start)
        };
        // There is always room behind the last part.
        let start = iter::once(0).chain(ends).filter(is_free).min().unwrap_or_default();
        self.add(start..start + room);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_taken_meets_no_other_and_is_the_first_with_room() {
        let mut parts = Parts::default();
        parts.add(4..8);
        parts.add(10..20);
        parts.add(3..3);
        assert_eq!([2, 4, 3, 2].map(|room| parts.take(room)), [0, 20, 24, 2]);
    }
}
