//! What a lock's file says: the last token, and who holds it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lock_core::backend::next_token;
use lock_core::{Contention, FencingToken, Holder, InvalidToken, Label, LockName, OwnerId, Ttl};

use crate::machine::Now;
use crate::queue::Queue;

/// The state of a lock.
///
/// Written as lines of text, which cannot run into each other because names and labels hold no
/// control characters: name, token, and if it is held owner, deadline in ns, boot id, label, since
/// when it is held, in µs since 1970, and if somebody waits which entries of the file are the queue. An
/// earlier version, which knows of no queue, refuses the record of a lock that somebody waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) name: LockName,
    /// The last token granted. It stays when the hold ends, so that the next one is greater.
    pub(crate) token: FencingToken,
    hold: Option<Hold>,
    /// Who waits for the end of the hold. Without a hold, nobody does.
    queue: Queue,
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
    /// The lock called `name` with a new hold, under the token that follows that of `last`. Nobody waits.
    pub(crate) fn granted(
        name: &LockName,
        last: Option<&Self>,
        hold: Hold,
        now: &Now,
    ) -> Result<Self, InvalidToken> {
        let last = last.map(|record| record.token);
        Ok(Self {
            name: name.clone(),
            token: next_token(last, Duration::from_micros(now.wall_micros))?,
            hold: Some(hold),
            queue: Queue::default(),
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

    /// The lock whose hold is `retired`'s, and ends after `delay` (C41).
    #[must_use]
    pub(crate) fn retired(mut self, retired: OwnerId, delay: Ttl, now: &Now) -> Self {
        if let Some(hold) = &mut self.hold {
            (hold.owner, hold.deadline) = (retired, now.uptime + delay.as_duration());
        }
        self
    }

    /// The lock with these waiters.
    #[must_use]
    pub(crate) fn with_queue(self, queue: Queue) -> Self {
        Self { queue, ..self }
    }

    /// Whether the record names no waiters.
    pub(crate) fn has_no_queue(&self) -> bool {
        self.queue.is_empty()
    }

    /// Who waits, as far as they can be alive: nobody outlives a boot.
    pub(crate) fn queue(&self, now: &Now) -> Queue {
        let is_of_this_boot = self.hold.as_ref().is_some_and(|hold| hold.boot == now.boot);
        if is_of_this_boot { self.queue } else { Queue::default() }
    }

    /// The lock without a holder, and without anybody who waits.
    #[must_use]
    pub(crate) fn released(self) -> Self {
        Self { hold: None, queue: Queue::default(), ..self }
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

    /// Whether the hold that was `granted` is still in force as it was. Its holder makes it last longer when
    /// it claims it.
    pub(crate) fn is_unclaimed(&self, granted: &Self, now: &Now) -> bool {
        self.token == granted.token && self.hold(now).is_some() && self.hold == granted.hold
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
            if !self.queue.is_empty() {
                text += &format!("\n{}", self.queue.to_line());
            }
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
        let queue = lines.next().map_or(Some(Queue::default()), Queue::from_line)?;
        let complete = lines.next().is_none();
        complete.then_some(Self { name, token, hold, queue })
    }
}

impl Hold {
    /// A hold that begins now and lasts for `ttl`.
    pub(crate) fn new(owner: OwnerId, label: Label, ttl: Duration, now: &Now) -> Self {
        let (deadline, boot) = (now.uptime + ttl, now.boot.clone());
        Self { owner, deadline, boot, label, since_micros: now.wall_micros }
    }

    /// What a claim that found it is told.
    pub(crate) fn contention(&self, now: &Now) -> Contention {
        let mut contention = Contention::unknown();
        contention.ttl_left = Some(self.left(now));
        contention.holder = Some(self.label.clone());
        contention.at = Some(now.server_time());
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
            queue: Queue::from_line(&format!("{} {1} {1}", u32::MAX - 1, u32::MAX))
                .expect("a queue"),
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
        let without_queue = whole.rsplit_once('\n').expect("lines").0;
        let without_since = without_queue.rsplit_once('\n').expect("lines").0;
        let without_label = without_since.rsplit_once('\n').expect("lines").0;
        for earlier in [without_since, without_queue] {
            let read = Record::decode(earlier.as_bytes()).expect("a record of an earlier version");
            assert_eq!((read.hold.is_some(), read.queue), (true, Queue::default()));
        }
        let unsound = ["2 1 3", "0 2 1", "1 1 1", "0 1", "0 1 1 1", "0 1 4294967296", ""];
        let unsound = unsound.map(|queue| format!("{without_queue}\n{queue}"));
        let longer = format!("{whole}\n");
        let bad = ["", "a", "a\n", "a\n0", "a\n1\n", without_label, &longer];
        for bad in bad.into_iter().chain(unsound.iter().map(|bad| &**bad)) {
            assert_eq!(Record::decode(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Record::decode(b"\xff\n1"), None);
    }
}
