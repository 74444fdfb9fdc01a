//! What a lock's file says: the last token, and who holds it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lock_core::backend::{Claim, next_token};
use lock_core::{Contention, FencingToken, Holder, InvalidToken, Label, LockName, OwnerId, Ttl};

use crate::machine::Now;

/// The state of a lock.
///
/// Written as lines of text, which cannot run into each other because names and labels hold no
/// control characters: name, token, and if it is held owner, deadline in ns, boot id, label, and since
/// when it is held, in µs since 1970.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) name: LockName,
    /// The last token granted. It stays when the hold ends, so that the next one is greater.
    pub(crate) token: FencingToken,
    hold: Option<Hold>,
}

/// A hold, which may be over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hold {
    owner: OwnerId,
    /// On the clock of the boot it was granted in.
    deadline: Duration,
    boot: Arc<str>,
    label: Label,
    /// When it was granted, on the wall clock; 0 if an earlier version wrote it.
    since_micros: u64,
}

impl Record {
    /// The lock in the hands of `claim`, with the token that follows `last`.
    pub(crate) fn granted(
        last: Option<FencingToken>,
        claim: &Claim,
        now: &Now,
    ) -> Result<Self, InvalidToken> {
        Ok(Self {
            name: claim.name.clone(),
            token: next_token(last, Duration::from_micros(now.wall_micros))?,
            hold: Some(Hold {
                owner: claim.owner,
                deadline: now.uptime + claim.ttl.as_duration(),
                boot: now.boot.clone(),
                label: claim.label.clone(),
                since_micros: now.wall_micros,
            }),
        })
    }

    /// The lock whose hold lasts at least `ttl` from now. It is never shortened: answers may
    /// overtake each other.
    #[must_use]
    pub(crate) fn extended(mut self, ttl: Ttl, now: &Now) -> Self {
        if let Some(hold) = &mut self.hold {
            // C10: never shortened.
            hold.deadline = hold.deadline.max(now.uptime + ttl.as_duration());
        }
        self
    }

    /// The lock without a holder.
    #[must_use]
    pub(crate) fn released(self) -> Self {
        Self { hold: None, ..self }
    }

    /// The hold that is not over.
    pub(crate) fn hold(&self, now: &Now) -> Option<&Hold> {
        let hold = self.hold.as_ref()?;
        (hold.boot == now.boot && now.uptime < hold.deadline).then_some(hold)
    }

    /// Whether `owner` holds the lock.
    pub(crate) fn is_held_by(&self, owner: OwnerId, now: &Now) -> bool {
        self.hold(now).is_some_and(|hold| hold.owner == owner)
    }

    /// The holder, as seen from outside.
    pub(crate) fn holder(&self, now: &Now) -> Option<Holder> {
        let hold = self.hold(now)?;
        let left = hold.left(now);
        let holder = Holder::ours(hold.owner, self.token, left, hold.label.clone());
        Some(match hold.since_micros {
            0 => holder,
            micros => holder.since(UNIX_EPOCH + Duration::from_micros(micros)),
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("{}\n{}", self.name.as_str(), self.token);
        if let Some(hold) = &self.hold {
            let (owner, nanos) = (hold.owner.expose(), hold.deadline.as_nanos());
            let (label, since) = (hold.label.as_str(), hold.since_micros);
            text += &format!("\n{owner}\n{nanos}\n{}\n{label}\n{since}", hold.boot);
        }
        text.into_bytes()
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` if it is something else.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(payload).ok()?.split('\n');
        let name = LockName::new(lines.next()?).ok()?;
        let token = lines.next()?.parse().ok()?;
        let hold = match lines.next() {
            Some(owner) => Some(Hold::decode(owner, &mut lines)?),
            None => None,
        };
        let complete = lines.next().is_none();
        complete.then_some(Self { name, token, hold })
    }
}

impl Hold {
    /// What a claim that found it is told.
    pub(crate) fn contention(&self, now: &Now) -> Contention {
        let mut contention = Contention::unknown();
        contention.ttl_left = Some(self.left(now));
        contention.holder = Some(self.label.clone());
        contention
    }

    fn left(&self, now: &Now) -> Duration {
        self.deadline.saturating_sub(now.uptime)
    }

    fn decode<'a>(owner: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        Some(Self {
            owner: owner.parse().ok()?,
            deadline: Duration::from_nanos(lines.next()?.parse().ok()?),
            boot: lines.next()?.into(),
            label: Label::new(lines.next()?).ok()?,
            since_micros: lines.next().map_or(Some(0), |since| since.parse().ok())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{MAX_LABEL_BYTES, MAX_NAME_BYTES};

    use super::*;
    use crate::slots::MAX_PAYLOAD_BYTES;

    /// As large as a record can be.
    fn largest() -> Record {
        Record {
            name: LockName::new("n".repeat(MAX_NAME_BYTES)).expect("a name"),
            token: FencingToken::MAX,
            hold: Some(Hold {
                owner: OwnerId::random(),
                deadline: Duration::from_nanos(u64::MAX),
                boot: "b1946ac9-2492-4d23-8d3b-6f1e1d5f9a10".into(),
                label: Label::new("l".repeat(MAX_LABEL_BYTES)).expect("a label"),
                since_micros: u64::MAX,
            }),
        }
    }

    #[test]
    fn the_largest_record_fits_and_is_read_again() {
        let payload = largest().encode();
        assert!(payload.len() <= MAX_PAYLOAD_BYTES, "{}", payload.len());
        assert_eq!(Record::decode(&payload), Some(largest_with_owner_of(&payload)));
    }

    /// Owners are random: takes the one that was written.
    fn largest_with_owner_of(payload: &[u8]) -> Record {
        let mut record = largest();
        let text = std::str::from_utf8(payload).expect("text");
        if let Some(hold) = &mut record.hold {
            let owner = text.lines().nth(2).expect("an owner");
            hold.owner = owner.parse().expect("an owner");
        }
        record
    }

    #[test]
    fn a_record_without_a_holder_keeps_the_token() {
        let record = largest().released();
        let read = Record::decode(&record.encode()).expect("a record");
        assert_eq!((read.token, read.hold), (FencingToken::MAX, None));
    }

    #[test]
    fn what_is_not_a_record_is_none() {
        let whole = String::from_utf8(largest().encode()).expect("text");
        let without_since = whole.rsplit_once('\n').expect("lines").0;
        let without_label = without_since.rsplit_once('\n').expect("lines").0;
        let read =
            Record::decode(without_since.as_bytes()).expect("a record of an earlier version");
        assert_eq!(read.hold.map(|hold| hold.since_micros), Some(0));
        for bad in ["", "a", "a\n", "a\n0", "a\n1\n", without_label, &format!("{whole}\n")] {
            assert_eq!(Record::decode(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Record::decode(b"\xff\n1"), None);
    }
}
