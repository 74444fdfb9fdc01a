//! The value of a claim's key: its kind, its label, the time of its grant, and its owner.
//!
//! ```text
//!   exclusive   label                     0xFC to 0xFF: no text in UTF-8 begins with such a byte
//!   permits     0xFE 2/5\nlabel           two of five, which has no slots yet, and so does not hold
//!               0xFE 2/5:0,3\nlabel       the same with its slots: it holds
//!   shared      0xFF label
//! ```
//!
//! The first byte allows comparisons by the server: the value of a shared claim is above `0xFE 0xFF` (C34), and
//! shared claims are the last in the order of values.
//!
//! A value that is not fully understood, of a later format or of another program, is an exclusive claim without an
//! owner: others wait for it. A later format begins its values with a byte from 0xF8 to 0xFB. Such a byte is less
//! than the start of shared claims, and no text.
//!
//! etcd tells no wall time. So the holder writes its own, in ms since 1970, on a line behind the label, which has no
//! line breaks. A place in the queue has no time: when it becomes a hold, the holder writes the time with its first
//! renewal, or with its slots. So the time shows that the lock is claimed. The third line is the owner.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::Claim;
use lock_core::{Kind, Label, OwnerId, Permits, Slots};

/// Start of the value of a shared claim.
const SHARED: u8 = 0xFF;

/// Start of the value of a claim on permits.
const PERMITS: u8 = 0xFE;

/// Less than the value of any shared claim, and greater than that of any other claim.
pub(crate) const BELOW_SHARED: [u8; 2] = [PERMITS, 0xFF];

/// Value of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    /// The slots of a claim on permits, once it holds (C36).
    pub(crate) slots: Slots,
    pub(crate) label: Label,
    /// Time of the grant on the holder's wall clock, if the value has it (C45).
    pub(crate) since: Option<SystemTime>,
    /// Owner of the claim; `None` if the value is not understood.
    pub(crate) owner: Option<OwnerId>,
}

/// Returns the value of a claim with a place in the queue.
pub(crate) fn of_waiter(claim: &Claim) -> Vec<u8> {
    let text = text(&claim.label, None, Some(claim.owner));
    [start(claim.kind, &Slots::NONE), text.into()].concat()
}

/// Returns the value of a claim that is granted at `now` on the holder's wall clock (C45).
pub(crate) fn of_holder(claim: &Claim, slots: &Slots, now: SystemTime) -> Vec<u8> {
    let text = text(&claim.label, Some(now), Some(claim.owner));
    [start(claim.kind, slots), text.into()].concat()
}

/// Returns the value of a hold that came from a place in the queue with the value `place`. It was claimed at `now` on
/// the holder's wall clock (C45).
pub(crate) fn claimed(place: &Value, now: SystemTime) -> Vec<u8> {
    let text = text(&place.label, Some(now), place.owner);
    [start(place.kind, &place.slots), text.into()].concat()
}

/// Returns the part behind the kind.
fn text(label: &Label, since: Option<SystemTime>, owner: Option<OwnerId>) -> String {
    // A clock before 1970 gives a time too: its presence shows that the lock is held.
    let since = since.map(|since| since.duration_since(UNIX_EPOCH).unwrap_or_default());
    let since = since.map(|since| since.as_millis().to_string()).unwrap_or_default();
    let owner = owner.map(|owner| owner.expose()).unwrap_or_default();
    // The label itself, not its `Display`, which escapes some characters.
    format!("{}\n{since}\n{owner}", label.as_str())
}

/// Returns the part before the label.
fn start(kind: Kind, slots: &Slots) -> Vec<u8> {
    match kind {
        Kind::Shared => vec![SHARED],
        Kind::OneOf(permits) => {
            let (taken, of) = (permits.taken(), permits.of());
            let colon = if *slots == Slots::NONE { "" } else { ":" };
            [&[PERMITS], format!("{taken}/{of}{colon}{slots}\n").as_bytes()].concat()
        }
        _ => Vec::new(),
    }
}

/// Reads the value of a claim. A value that is not fully understood is an exclusive claim (C37).
pub(crate) fn read(value: &[u8]) -> Value {
    let read = match value {
        [SHARED, text @ ..] => read_text(text).map(|value| Value { kind: Kind::Shared, ..value }),
        [PERMITS, text @ ..] => read_permits(text),
        text => read_text(text),
    };
    read.unwrap_or_default()
}

fn read_permits(text: &[u8]) -> Option<Value> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let permits = str::from_utf8(&text[..end]).ok()?;
    let (permits, slots) = permits.split_once(':').unwrap_or((permits, ""));
    let (taken, of) = permits.split_once('/')?;
    let permits = Permits::new(taken.parse().ok()?, of.parse().ok()?).ok()?;
    let slots = slots.split(',').filter(|slot| !slot.is_empty()).map(|slot| slot.parse().ok());
    let slots = Slots::new(slots.collect::<Option<Vec<u16>>>()?);
    let taken = slots.as_slice();
    let is_whole = taken.is_empty() || taken.len() == usize::from(permits.taken());
    let is_sound = is_whole && taken.iter().all(|slot| *slot < permits.of());
    let value = read_text(&text[end + 1..]).filter(|_| is_sound)?;
    Some(Value { kind: Kind::OneOf(permits), slots, ..value })
}

/// Reads the label of a claim, the time of its grant if there is one, and its owner; `None` for any other text.
fn read_text(text: &[u8]) -> Option<Value> {
    let mut lines = str::from_utf8(text).ok()?.split('\n');
    let (label, since, owner) = (lines.next()?, lines.next()?, lines.next()?);
    let since = match since {
        "" => None,
        millis => Some(UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))?),
    };
    let (label, owner) = (Label::new(label).ok()?, owner.parse().ok()?);
    let is_whole = lines.next().is_none();
    is_whole.then_some(Value { label, since, owner: Some(owner), ..Value::default() })
}

#[cfg(test)]
mod tests {
    use lock_core::LockRequest;

    use super::*;

    fn permits(taken: u16, of: u16) -> Kind {
        Kind::OneOf(Permits::new(taken, of).expect("permits"))
    }

    fn claim(kind: Kind, label: &str) -> Claim {
        let request = LockRequest::new("a").label(label);
        let request = match kind {
            Kind::Shared => request.shared(),
            Kind::OneOf(permits) => request.permits(permits.taken(), permits.of()),
            _ => request,
        };
        request.claim().expect("a good claim")
    }

    /// Returns all kinds of a claim's value, each with the slots of its holder.
    fn kinds() -> [(Kind, Slots); 4] {
        [
            (Kind::Exclusive, Slots::NONE),
            (Kind::Shared, Slots::NONE),
            (permits(1, 1), Slots::new([0])),
            (permits(2, 5), Slots::new([0, 3])),
        ]
    }

    #[test]
    fn c45_a_value_is_read_as_it_is_written() {
        let now = UNIX_EPOCH + Duration::from_millis(1_795_251_431_457);
        for label in ["", "a host", "12", "ü", "\\u{202e}", "a\u{202e}b", "2/5:1"] {
            for (kind, slots) in kinds() {
                let claim = claim(kind, label);
                let (label, owner) = (claim.label.clone(), Some(claim.owner));
                let waiter = Value { kind, label, owner, ..Value::default() };
                assert_eq!(read(&of_waiter(&claim)), waiter);
                let holder = Value { slots: slots.clone(), since: Some(now), ..waiter.clone() };
                assert_eq!(read(&of_holder(&claim, &slots, now)), holder);
                assert_eq!(read(&claimed(&waiter, now)), Value { since: Some(now), ..waiter });
            }
        }
    }

    /// S3: a value that is not fully understood is an exclusive claim without an owner, whatever its start is.
    #[test]
    fn s3_a_value_that_is_not_understood_is_that_of_an_exclusive_claim() {
        let owner = OwnerId::random().expose();
        let good = format!("a host\n1795251431457\n{owner}");
        assert!(read(good.as_bytes()).owner.is_some());
        let texts = [
            String::new(),
            "a host".into(),
            "a host\n1".into(),
            format!("a host\n\n{}", &owner[1..]),
            format!("a host\n-1\n{owner}"),
            format!("a host\n99999999999999999999\n{owner}"),
            format!("{good}\nand more"),
            format!("a host\n\n{owner}\nand more"),
            format!("{}\n\n{owner}", "x".repeat(999)),
        ];
        for text in texts {
            for start in [&b""[..], b"\xfc", b"\xff", b"\xfe1/5\n", b"\xfe1/5:0\n"] {
                let value = [start, text.as_bytes()].concat();
                assert_eq!(read(&value), Value::default(), "{value:?}");
            }
        }
        for start in
            ["\u{0}2/5:0\n", "2/5:0,1,2\n", "2/5:0,5\n", "2/5:0,x\n", "6/5\n", "5\n", "2/5;3:0,1\n"]
        {
            let value = [&[PERMITS], start.as_bytes(), good.as_bytes()].concat();
            assert_eq!(read(&value), Value::default(), "{start:?}");
        }
        for later in [0xf8, 0xf9, 0xfa, 0xfb, 0xfd] {
            assert_eq!(read(&[&[later], good.as_bytes()].concat()), Value::default());
        }
    }

    /// C34: the server can only compare values.
    #[test]
    fn c34_shared_claims_have_the_greatest_values() {
        for (kind, slots) in kinds() {
            for label in ["", "\u{10ffff}"] {
                let claim = claim(kind, label);
                let holder = of_holder(&claim, &slots, UNIX_EPOCH);
                for value in [of_waiter(&claim), holder] {
                    let is_shared = kind == Kind::Shared;
                    assert_eq!(*value > BELOW_SHARED[..], is_shared, "{kind} {value:?}");
                }
            }
        }
    }

    /// A value that is understood is written as it was read; any other is that of an exclusive claim of nobody's.
    #[test]
    fn fuzz_values() {
        const WORDS: &[&str] = &[
            "2/5",
            ":0,3",
            "\n",
            "1795251431457",
            "\n0123456789abcdef0123456789abcdef",
            "/",
            ",",
            ":",
            "label",
            "label\n1\n0123456789abcdef0123456789abcdef",
            "2/5:0,3\nlabel\n",
            "18446744073709551615",
        ];
        const STARTS: [&[u8]; 4] = [b"", &[SHARED], &[PERMITS], &[0xF8]];
        lock_fuzz::check(|(choice, parts): &(u8, lock_fuzz::Parts)| {
            let first = STARTS[usize::from(*choice) % STARTS.len()];
            let value = read(&[first, lock_fuzz::text(WORDS, parts).as_bytes()].concat());
            if value.owner.is_none() {
                return assert_eq!(value, Value::default());
            }
            let text = text(&value.label, value.since, value.owner);
            assert_eq!(read(&[start(value.kind, &value.slots), text.into()].concat()), value);
            assert_eq!(read(&claimed(&value, UNIX_EPOCH)).owner, value.owner);
        });
    }
}
