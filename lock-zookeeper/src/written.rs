//! The data of a claim's node.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{FencingToken, Label, Slots};

/// Start of the data of this format. A later format starts with another word, which this version does not
/// understand.
const FORMAT: &str = "claim1";

/// The data of a claim's node, in one line:
///
/// ```text
///   claim1 held 30000 1795251431457008 0,3 1795251431457 web-3:4711
///          │    │     │                │   │             └ label, to the end
///          │    │     │                │   └ since when a hold that has moved is held, in ms; else 0
///          │    │     │                └ slots of a hold that is one of n, else `-`
///          │    │     └ token, or `+` and the offset of the floor: see [`Token`]
///          │    └ TTL in milliseconds
///          └ or `waits`
/// ```
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    /// False for a place in the queue, even for the first one: nobody believes in it yet.
    pub(crate) is_held: bool,
    pub(crate) ttl: Duration,
    pub(crate) token: Token,
    pub(crate) slots: Slots,
    /// Since when a hold that has moved is held. Others are held since the write of this.
    pub(crate) since: Option<SystemTime>,
    pub(crate) label: Label,
}

/// A claim's token in the data of its node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token {
    /// Difference between the token and the id of the transaction that writes this, which is not known before.
    Offset(i64),
    /// The token. A hold that moved to another session has another node.
    Of(FencingToken),
}

impl Token {
    fn read(text: &str) -> Option<Self> {
        match text.strip_prefix('+') {
            Some(offset) => offset.parse().ok().map(Self::Offset),
            None => text.parse().ok().map(Self::Of),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "+{offset}"),
            Self::Of(token) => write!(f, "{token}"),
        }
    }
}

impl Written {
    pub(crate) fn text(&self) -> String {
        let state = if self.is_held { "held" } else { "waits" };
        let slots = if self.slots == Slots::NONE { "-".to_owned() } else { self.slots.to_string() };
        let since = self.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
        let (token, ttl, since) =
            (self.token, self.ttl.as_millis(), since.unwrap_or_default().as_millis());
        format!("{FORMAT} {state} {ttl} {token} {slots} {since} {}", self.label.as_str())
    }

    /// Reads the data of a node; `None` if it is not wholly understood.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let mut parts = str::from_utf8(data).ok()?.splitn(7, ' ');
        if parts.next()? != FORMAT {
            return None;
        }
        let is_held = match parts.next()? {
            "held" => true,
            "waits" => false,
            _ => return None,
        };
        let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
        let token = Token::read(parts.next()?)?;
        let slots = match parts.next()? {
            "-" => Slots::NONE,
            slots => Slots::parse(slots)?,
        };
        let since = match parts.next()?.parse().ok()? {
            0 => None,
            millis => UNIX_EPOCH.checked_add(Duration::from_millis(millis)),
        };
        Some(Self { is_held, ttl, token, slots, since, label: Label::new(parts.next()?).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_read_as_it_was_written() {
        let label = Label::new("web 3: ü ").expect("a label");
        let since = Some(UNIX_EPOCH + Duration::from_millis(1_795_251_431_457));
        let (ttl, token) = (Duration::from_secs(30), Token::Offset(-5));
        let held = Written { is_held: true, ttl, token, slots: Slots::NONE, since, label };
        let permit = Written { slots: Slots::new([0, 3]), ..held.clone() };
        let moved =
            Written { token: Token::Of(FencingToken::new(7).expect("a token")), ..held.clone() };
        let waits =
            Written { is_held: false, since: None, label: Label::default(), ..held.clone() };
        for written in [held, moved, permit, waits] {
            assert_eq!(Written::read(written.text().as_bytes()), Some(written));
        }
    }

    #[test]
    fn c49_data_that_is_not_wholly_understood_is_none() {
        let bad = [
            "", "claim2 held 1 7 - 0 ", "claim1 held 1 7 - 0", "claim1 stands 1 7 - 0 ",
            "claim1 held x 7 - 0 ", "claim1 held 1 0 - 0 ", "claim1 held 1 - - 0 ",
            "claim1 held 1 + - 0 ", "claim1 held 1 7 - x ", "claim1 held 1 7 0,x 0 ",
        ];
        for text in bad {
            assert_eq!(Written::read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Written::read(b"\xff"), None);
    }

    /// Data that can be read is written back unchanged.
    #[test]
    fn fuzz_data() {
        const WORDS: &[&str] = &[
            "claim1 ",
            "held ",
            "waits ",
            "30000 ",
            "- ",
            "7 ",
            "+7 ",
            "0 ",
            "1795251431457 ",
            "label",
            " ",
            "18446744073709551615",
            "claim1 held 30000 7 - 1795251431457 ",
        ];
        lock_fuzz::check(|parts| {
            let Some(read) = Written::read(lock_fuzz::text(WORDS, parts).as_bytes()) else {
                return;
            };
            assert_eq!(Written::read(read.text().as_bytes()), Some(read));
        });
    }
}
