//! A lock's value as text.
//!
//! The first line is the last token, and empty if there is none. Each hold is a line: owner, token, `exclusive`,
//! `shared` or the number of permits, slots, end in ns, label, and time of the grant in µs, with tabs between them. The
//! end has 20 digits, so that a renewal makes no text longer. A tab is a control character, so no label has a tab. The
//! text has the owner ids, which are capabilities.

use std::time::Duration;

use super::{Held, LockValue};
use crate::model::{Kind, Label, Permits, Slots};

impl LockValue {
    /// Returns the value as text. The holds begin at the second line.
    pub fn to_text(&self) -> String {
        let last = self.last_token.map(|token| token.to_string()).unwrap_or_default();
        self.holds.iter().fold(last, |text, held| text + "\n" + &encode(held))
    }

    /// Parses the text of [`to_text`](Self::to_text); `None` for any other text.
    pub fn from_text(text: &str) -> Option<Self> {
        let (last, holds) = text.split_once('\n').map_or((text, None), |(l, h)| (l, Some(h)));
        let last_token = if last.is_empty() { None } else { Some(last.parse().ok()?) };
        let holds = holds.into_iter().flat_map(|holds| holds.split('\n')).map(decode);
        Some(Self { last_token, holds: holds.collect::<Option<_>>()? })
    }
}

#[cfg(feature = "serde")]
impl From<LockValue> for String {
    fn from(value: LockValue) -> Self {
        value.to_text()
    }
}

#[cfg(feature = "serde")]
impl TryFrom<String> for LockValue {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_text(&text).ok_or("not the value of a lock")
    }
}

fn encode(held: &Held) -> String {
    let kind = match held.kind {
        Kind::OneOf(permits) => permits.of().to_string(),
        other => other.to_string(),
    };
    let (owner, ends, since) =
        (held.owner.expose(), held.expires.as_nanos(), held.since.as_micros());
    let (token, slots, label) = (held.token, &held.slots, held.label.as_str());
    format!("{owner}\t{token}\t{kind}\t{slots}\t{ends:020}\t{label}\t{since}")
}

fn decode(line: &str) -> Option<Held> {
    let mut fields = line.split('\t');
    let (owner, token) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let (kind, slots) = kind_of(fields.next()?, fields.next()?)?;
    let expires = Duration::from_nanos(fields.next()?.parse().ok()?);
    let label = Label::new(fields.next()?).ok()?;
    let since = Duration::from_micros(fields.next()?.parse().ok()?);
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
    use super::*;
    use crate::model::{FencingToken, OwnerId};

    fn held(kind: Kind) -> Held {
        Held {
            owner: OwnerId::random(),
            token: FencingToken::MAX,
            kind,
            slots: Slots::new(0..kind.slots()),
            label: Label::new("l".repeat(Label::MAX_BYTES)).expect("a label"),
            since: Duration::from_micros(1_795_251_431_457_582),
            expires: Duration::from_nanos(u64::MAX),
        }
    }

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let all = Permits::new(Permits::MAX, Permits::MAX).expect("permits");
        let plain = Held { label: Label::default(), ..held(Kind::Shared) };
        let holds = vec![held(Kind::Shared), held(Kind::OneOf(all)), plain, held(Kind::Exclusive)];
        for holds in [holds, Vec::new()] {
            for last_token in [None, Some(FencingToken::MAX)] {
                let value = LockValue { last_token, holds: holds.clone() };
                assert_eq!(LockValue::from_text(&value.to_text()), Some(value));
            }
        }
    }

    /// The first format. A change of it needs another mark of the files, and another format of the register.
    #[test]
    fn a_hold_is_written_like_this() {
        let owner: OwnerId = "00112233445566778899aabbccddeeff".parse().expect("an owner");
        let label = Label::new("me").expect("a label");
        let (since, expires) = (Duration::from_micros(9), Duration::from_nanos(7));
        let held = Held { owner, label, since, expires, ..held(Kind::Exclusive) };
        let value = LockValue { last_token: Some(FencingToken::MAX), holds: vec![held] };
        let expected = "9007199254740991\n\
                        00112233445566778899aabbccddeeff\t9007199254740991\texclusive\t\t\
                        00000000000000000007\tme\t9";
        assert_eq!(value.to_text(), expected);
    }

    #[test]
    fn what_is_not_a_value_is_none() {
        let whole = format!("7\n{}", encode(&held(Kind::Shared)));
        let cut = whole.rsplit_once('\t').expect("fields").0;
        let (longer, next) = (format!("{whole}\t"), format!("{whole}\n"));
        let slots = whole.replacen("shared\t", "shared\t0", 1);
        let unknown = whole.replacen("shared", "leased", 1);
        for bad in ["0", "x", "7\n", "7\n\t\t\t\t\t\t", cut, &longer, &next, &slots, &unknown] {
            assert_eq!(LockValue::from_text(bad), None, "{bad:?}");
        }
    }

    /// Parses each valid text, and writes the same text again.
    #[test]
    fn fuzz_values() {
        const WORDS: &[&str] = &[
            "7\n0123456789abcdef0123456789abcdef\t7\t",
            "exclusive\t",
            "shared\t",
            "5\t",
            "0,2\t",
            "\t",
            "\n",
            "7",
            "me\t",
            ",",
            "\n0123456789abcdef0123456789abcdef\t7\t5\t0,2\t",
            "18446744073709551615",
            "7\n0123456789abcdef0123456789abcdef\t7\texclusive\t\t9\tme\t",
        ];
        lock_fuzz::check(|parts| {
            let text = lock_fuzz::text(WORDS, parts);
            let Some(value) = LockValue::from_text(&text) else { return };
            assert_eq!(LockValue::from_text(&value.to_text()), Some(value));
        });
    }
}
