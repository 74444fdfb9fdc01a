//! Two slots in one file, so that a torn write leaves the old value.
//!
//! A slot is `magic (8) · sequence (8) · length (4) · crc32 (4) · payload · zeros`. Integers are little endian, and
//! the checksum covers all but itself and the zeros. The value with sequence number n is in slot n mod 2, so that the
//! next one never overwrites it.

use crc32fast::Hasher;

/// The size of a slot. A write of it lies within one page.
pub(crate) const SLOT_BYTES: usize = 4096;

/// The size of a file with both slots.
pub(crate) const FILE_BYTES: usize = 2 * SLOT_BYTES;

/// The largest payload.
pub(crate) const MAX_PAYLOAD_BYTES: usize = SLOT_BYTES - HEADER_BYTES;

/// The mark of the format, with its kind and version. A format with another mark must not be changed.
const MAGIC: [u8; 8] = *b"lease-1\n";

const HEADER_BYTES: usize = 24;

/// A value, and its number in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) sequence: u64,
    pub(crate) payload: Vec<u8>,
}

/// The file's content cannot be interpreted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// No value is complete.
    Damaged,
    /// A slot has another mark. It may be valid, whatever the other slot has.
    Foreign,
}

impl Unusable {
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Self::Damaged => "neither of its records is whole",
            Self::Foreign => "its format is not known, and may be a later one",
        }
    }
}

/// Returns the valid value; `None` if none was ever written.
pub(crate) fn newest(file: &[u8]) -> Result<Option<Version>, Unusable> {
    if file.chunks(SLOT_BYTES).take(2).any(is_foreign) {
        return Err(Unusable::Foreign);
    }
    let slots = file.chunks(SLOT_BYTES).zip([0, 1]);
    let whole = slots.filter_map(|(slot, index)| decode(slot).filter(|v| v.sequence % 2 == index));
    match whole.max_by_key(|version| version.sequence) {
        Some(version) => Ok(Some(version)),
        None if is_unwritten(file) => Ok(None),
        None => Err(Unusable::Damaged),
    }
}

/// Returns a slot to write, and its offset in the file.
pub(crate) fn encode(version: &Version) -> (u64, Vec<u8>) {
    let mut slot = vec![0; SLOT_BYTES];
    let length = version.payload.len().min(MAX_PAYLOAD_BYTES);
    slot[..8].copy_from_slice(&MAGIC);
    slot[8..16].copy_from_slice(&version.sequence.to_le_bytes());
    slot[16..20].copy_from_slice(&(length as u32).to_le_bytes());
    slot[HEADER_BYTES..HEADER_BYTES + length].copy_from_slice(&version.payload[..length]);
    let crc = checksum(&slot, &version.payload[..length]);
    slot[20..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    (version.sequence % 2 * SLOT_BYTES as u64, slot)
}

fn decode(slot: &[u8]) -> Option<Version> {
    let (header, rest) = slot.split_at_checked(HEADER_BYTES)?;
    let sequence = u64::from_le_bytes(header[8..16].try_into().ok()?);
    let length = u32::from_le_bytes(header[16..20].try_into().ok()?);
    let crc = u32::from_le_bytes(header[20..].try_into().ok()?);
    let payload = rest.get(..length as usize)?;
    let whole = header[..8] == MAGIC && crc == checksum(header, payload);
    whole.then(|| Version { sequence, payload: payload.to_vec() })
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&header[..20]);
    hasher.update(payload);
    hasher.finalize()
}

/// Returns true if a slot begins neither with our mark, nor with a part of it that a torn write left, nor with zeros.
fn is_foreign(slot: &[u8]) -> bool {
    let start = &slot[..slot.len().min(MAGIC.len())];
    let written = start.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    !MAGIC.starts_with(&start[..written])
}

/// Returns true if no value was ever valid: the file is empty, or its very first write was cut short (which leaves it
/// shorter than a slot), or a crash of the machine left only zeros.
fn is_unwritten(file: &[u8]) -> bool {
    let start = &file[..file.len().min(MAGIC.len())];
    let first_write_torn = file.len() < SLOT_BYTES && MAGIC.starts_with(start);
    first_write_torn || file.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(sequence: u64, size: usize) -> Version {
        let payload = vec![b'a' + sequence as u8; size];
        Version { sequence, payload }
    }

    /// Returns the file after the bytes `range` of the write of `version` have arrived.
    fn after(file: &[u8], version: &Version, range: std::ops::Range<usize>) -> Vec<u8> {
        let (offset, slot) = encode(version);
        let (offset, mut file) = (offset as usize, file.to_vec());
        file.resize(file.len().max(offset + range.end), 0);
        file[offset + range.start..offset + range.end].copy_from_slice(&slot[range]);
        file
    }

    fn written(versions: &[Version]) -> Vec<u8> {
        let write = |file: Vec<u8>, version| after(&file, version, 0..SLOT_BYTES);
        versions.iter().fold(Vec::new(), write)
    }

    #[test]
    fn a_write_torn_at_any_byte_leaves_the_old_value_or_the_new_one() {
        for sizes in [[3, 900, 40], [900, 3, 1000], [0, 0, 0], [10, 10, 10]] {
            let [a, b, c] = [0, 1, 2].map(|n| version(n, sizes[n as usize]));
            let history = [a, b, c];
            for count in 0..3 {
                let (file, next) = (written(&history[..count]), &history[count]);
                let old = history[..count].last();
                for cut in 0..=SLOT_BYTES {
                    let seen = newest(&after(&file, next, 0..cut)).expect("not damaged");
                    assert!(seen.as_ref() == old || seen.as_ref() == Some(next), "{cut}");
                }
                assert_eq!(newest(&written(&history[..=count])), Ok(Some(next.clone())));
            }
        }
    }

    #[test]
    fn a_write_with_a_hole_leaves_the_old_value_or_the_new_one() {
        let (old, next) = ([version(0, 500), version(1, 700)], version(2, 600));
        for start in 0..SLOT_BYTES {
            let seen = newest(&after(&written(&old), &next, start..SLOT_BYTES));
            let seen = seen.expect("not damaged").expect("a value");
            assert!(seen == old[1] || seen == next, "{start}");
        }
    }

    #[test]
    fn a_file_without_a_whole_value_is_damaged_unless_it_was_never_written() {
        assert_eq!(newest(&[]), Ok(None));
        assert_eq!(newest(&[0; FILE_BYTES]), Ok(None));
        assert_eq!(newest(b"lease-1\ntorn"), Ok(None));
        for garbage in [&b"hello"[..], &[7; SLOT_BYTES], &[7; FILE_BYTES], b"lease-2\n"] {
            assert_eq!(newest(garbage), Err(Unusable::Foreign));
        }
        let mut rotten = written(&[version(0, 10)]);
        rotten[HEADER_BYTES] ^= 1;
        assert_eq!(newest(&rotten), Err(Unusable::Damaged));
    }

    #[test]
    fn a_slot_of_a_later_format_is_never_passed_over() {
        for later in [0, 1] {
            let mut file = written(&[version(0, 10), version(1, 10)]);
            file[later * SLOT_BYTES..][..8].copy_from_slice(b"lease-2\n");
            assert_eq!(newest(&file), Err(Unusable::Foreign), "{later}");
        }
    }

    #[test]
    fn a_value_in_the_wrong_slot_is_none() {
        let (_, slot) = encode(&version(1, 10));
        assert_eq!(newest(&slot), Err(Unusable::Damaged));
    }

    #[test]
    fn the_largest_payload_fits() {
        let largest = version(0, MAX_PAYLOAD_BYTES);
        let file = written(std::slice::from_ref(&largest));
        assert_eq!(newest(&file), Ok(Some(largest)));
    }

    /// Any file has a newest value, none, or is refused. A value that is written after that is the newest.
    #[test]
    fn fuzz_files() {
        type Changes = Vec<(u16, u8)>;
        lock_fuzz::check(|(sizes, changes, length): &([u16; 3], Changes, u16)| {
            let [one, other, next] =
                [0, 1, 2].map(|n| version(n, usize::from(sizes[n as usize]) % MAX_PAYLOAD_BYTES));
            let mut file = written(&[one, other]);
            changes.iter().for_each(|(at, byte)| file[usize::from(*at) % FILE_BYTES] = *byte);
            if *length > 0 {
                file.truncate(usize::from(*length));
            }
            match newest(&file) {
                Ok(Some(seen)) if seen.sequence < 2 => {
                    assert_eq!(newest(&after(&file, &next, 0..SLOT_BYTES)), Ok(Some(next)));
                }
                seen => assert!(!changes.is_empty() || *length > 0, "{seen:?}"),
            }
        });
    }
}
