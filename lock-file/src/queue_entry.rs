//! One waiter's place in the queue of a lock.

use std::time::Duration;

use crc32fast::Hasher;
use lock_core::backend::{Claim, HoldRequest, UNCLAIMED_GRANT_TTL, WAITER_LIVENESS};
use lock_core::{Kind, Label, OwnerId, Permits, Ttl};
use uuid::Uuid;

use crate::machine::Now;

/// Bytes of an entry in the file. A write of it lies within one page.
pub(crate) const ENTRY_BYTES: usize = 256;

/// The layout of an entry in the file: `crc32 (4) · length of the label (4) · seen in ns (8) · TTL in ns (8) ·
/// socket (16) · owner (32) · label · zeros · permits taken (2) · permits of the lock (2)`. Integers are little endian,
/// and the checksum covers all that follows it. Exclusive is 0 of 0, and shared is 1 of 0. An entry of zeros, or an
/// incomplete one, belongs to nobody.
pub(crate) type EntryBytes = [u8; ENTRY_BYTES];

const LABEL_AT: usize = 72;

const PERMITS_AT: usize = ENTRY_BYTES - 4;

/// A waiter. The lock is granted in the order of their arrival (C27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueEntry {
    pub(crate) owner: OwnerId,
    pub(crate) ttl: Duration,
    pub(crate) label: Label,
    pub(crate) kind: Kind,
    /// The socket on which its process listens; `None` if the waiter polls.
    pub(crate) socket: Option<Uuid>,
    /// Time of its last sign of life, as uptime of the boot of the hold that it waits for.
    pub(crate) seen: Duration,
}

impl QueueEntry {
    /// Returns the place of `claim`, as it is taken or kept now.
    pub(crate) fn of(claim: &Claim, socket: Option<Uuid>, now: &Now) -> Self {
        let (owner, ttl, label) = (claim.owner, claim.ttl.as_duration(), claim.label.clone());
        Self { owner, ttl, label, kind: claim.kind, socket, seen: now.uptime }
    }

    /// C28: returns true if the waiter looked lately, as every waiter does each second.
    pub(crate) fn is_alive(&self, now: &Now) -> bool {
        now.uptime.saturating_sub(self.seen) <= WAITER_LIVENESS
    }

    /// Returns the request for a hold of the waiter, which did not ask just now.
    pub(crate) fn asked(&self) -> HoldRequest<'_> {
        // C28: short until it is renewed, so that a waiter that died in silence costs no more.
        let ttl = self.ttl.min(UNCLAIMED_GRANT_TTL);
        HoldRequest { owner: self.owner, kind: self.kind, ttl, label: &self.label }
    }

    pub(crate) fn encode(&self) -> EntryBytes {
        let mut bytes = [0; ENTRY_BYTES];
        let label = self.label.as_str().as_bytes();
        let socket = self.socket.unwrap_or(Uuid::nil());
        let (taken, of) = permits_of(self.kind);
        bytes[4..8].copy_from_slice(&(label.len() as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&(self.seen.as_nanos() as u64).to_le_bytes());
        bytes[16..24].copy_from_slice(&(self.ttl.as_nanos() as u64).to_le_bytes());
        bytes[24..40].copy_from_slice(socket.as_bytes());
        bytes[40..LABEL_AT].copy_from_slice(self.owner.expose().as_bytes());
        bytes[LABEL_AT..LABEL_AT + label.len()].copy_from_slice(label);
        bytes[PERMITS_AT..PERMITS_AT + 2].copy_from_slice(&taken.to_le_bytes());
        bytes[PERMITS_AT + 2..].copy_from_slice(&of.to_le_bytes());
        let crc = checksum(&bytes);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns true if a complete entry is here. Else it was erased, or its waiter was killed while it wrote.
    pub(crate) fn is_whole(bytes: &EntryBytes) -> bool {
        bytes[..4] == checksum(bytes).to_le_bytes()
    }

    /// Parses the bytes of [`encode`](Self::encode); `None` for any other bytes.
    pub(crate) fn decode(bytes: &EntryBytes) -> Option<Self> {
        if !Self::is_whole(bytes) {
            return None;
        }
        let length = u32::from_le_bytes(bytes[4..8].try_into().ok()?) as usize;
        let nanos = |at: usize| Some(u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?));
        let short = |at: usize| Some(u16::from_le_bytes(bytes[at..at + 2].try_into().ok()?));
        let text = |range| std::str::from_utf8(bytes.get(range)?).ok();
        let socket = Uuid::from_slice(&bytes[24..40]).ok()?;
        Some(Self {
            owner: text(40..LABEL_AT)?.parse().ok()?,
            ttl: Ttl::new(Duration::from_nanos(nanos(16)?)).ok()?.as_duration(),
            label: Label::new(text(LABEL_AT..LABEL_AT.checked_add(length)?)?).ok()?,
            kind: kind_of(short(PERMITS_AT)?, short(PERMITS_AT + 2)?)?,
            socket: (!socket.is_nil()).then_some(socket),
            seen: Duration::from_nanos(nanos(8)?),
        })
    }
}

fn permits_of(kind: Kind) -> (u16, u16) {
    match kind {
        Kind::Shared => (1, 0),
        other => (other.slots(), other.permits()),
    }
}

fn kind_of(taken: u16, of: u16) -> Option<Kind> {
    match (taken, of) {
        (0, 0) => Some(Kind::Exclusive),
        (1, 0) => Some(Kind::Shared),
        _ => Permits::new(taken, of).ok().map(Kind::OneOf),
    }
}

fn checksum(bytes: &EntryBytes) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&bytes[4..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use lock_core::{Label, Permits};

    use super::*;

    fn entry(label: usize) -> QueueEntry {
        QueueEntry {
            owner: OwnerId::random(),
            ttl: Duration::from_secs(30),
            label: Label::new("l".repeat(label)).expect("a label"),
            kind: Kind::Exclusive,
            socket: Some(Uuid::new_v4()),
            seen: Duration::from_nanos(123_456_789),
        }
    }

    #[test]
    fn the_largest_entry_fits_and_is_read_again() {
        for label in [0, 1, Label::MAX_BYTES] {
            let listening = entry(label);
            let polling = QueueEntry { socket: None, ..listening.clone() };
            let shared = QueueEntry { kind: Kind::Shared, ..listening.clone() };
            let permits = Permits::new(2, Permits::MAX).expect("permits");
            let permit = QueueEntry { kind: Kind::OneOf(permits), ..listening.clone() };
            for entry in [listening, polling, shared, permit] {
                assert_eq!(QueueEntry::decode(&entry.encode()), Some(entry));
            }
        }
    }

    #[test]
    fn an_entry_that_is_torn_at_any_byte_is_the_old_one_the_new_one_or_nobodys() {
        let old = entry(Label::MAX_BYTES);
        let refreshed = QueueEntry { seen: old.seen * 3, ..old.clone() };
        let erased = [0; ENTRY_BYTES];
        for (before, after) in [
            (erased, old.encode()),
            (old.encode(), refreshed.encode()),
            (old.encode(), entry(3).encode()),
            (old.encode(), erased),
        ] {
            for cut in 0..=ENTRY_BYTES {
                let mut torn = before;
                torn[..cut].copy_from_slice(&after[..cut]);
                let seen = QueueEntry::decode(&torn);
                let whole = [QueueEntry::decode(&before), QueueEntry::decode(&after)];
                assert!(seen.is_none() || whole.contains(&seen), "{cut}");
            }
        }
    }

    /// An entry with a correct checksum is written back unchanged, or has no owner.
    #[test]
    fn fuzz_entries() {
        lock_fuzz::check(|(changes, sealed, label): &(Vec<(u8, u8)>, bool, u8)| {
            let owner = "0123456789abcdef0123456789abcdef".parse().expect("an owner");
            let mut bytes = QueueEntry { owner, ..entry(usize::from(label % 129)) }.encode();
            changes.iter().for_each(|(at, byte)| bytes[usize::from(*at)] = *byte);
            if *sealed {
                let crc = checksum(&bytes);
                bytes[..4].copy_from_slice(&crc.to_le_bytes());
            }
            if let Some(read) = QueueEntry::decode(&bytes) {
                assert_eq!(QueueEntry::decode(&read.encode()), Some(read));
            }
        });
    }
}
