//! The data of a claim's node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{FencingToken, Label, Slots};

/// Start of the data of this format. A later format starts with another word, which this version does not
/// understand.
const FORMAT: &str = "claim1";

/// The data of a claim's node, in one line:
///
/// ```text
///   claim1 held 30000 - 0,3 1795251431457 web-3:4711
///          │    │     │ │   │             └ label, to the end
///          │    │     │ │   └ since when it is held, in milliseconds by its holder's clock; 0 while it waits
///          │    │     │ └ slots of a hold that is one of n, else `-`
///          │    │     └ token, if it is not that of the node: the hold moved to another session
///          │    └ TTL in milliseconds
///          └ or `waits`
/// ```
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    /// False for a place in the queue, even for the first one: nobody believes in it yet.
    pub(crate) is_held: bool,
    pub(crate) ttl: Duration,
    pub(crate) token: Option<FencingToken>,
    pub(crate) slots: Slots,
    pub(crate) since: Option<SystemTime>,
    pub(crate) label: Label,
}

impl Written {
    pub(crate) fn held(ttl: Duration, slots: Slots, label: Label) -> Self {
        Self { is_held: true, slots, since: Some(SystemTime::now()), ..Self::waits(ttl, label) }
    }

    pub(crate) fn waits(ttl: Duration, label: Label) -> Self {
        Self { is_held: false, ttl, token: None, slots: Slots::NONE, since: None, label }
    }

    pub(crate) fn text(&self) -> String {
        let state = if self.is_held { "held" } else { "waits" };
        let token = self.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let slots = if self.slots == Slots::NONE { "-".to_owned() } else { self.slots.to_string() };
        let since = self.since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
        let (ttl, since) = (self.ttl.as_millis(), since.unwrap_or_default().as_millis());
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
        let token = match parts.next()? {
            "-" => None,
            token => Some(token.parse().ok()?),
        };
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
        let held =
            Written { since, ..Written::held(Duration::from_secs(30), Slots::NONE, label.clone()) };
        let permit = Written { slots: Slots::new([0, 3]), ..held.clone() };
        let moved = Written { token: "7".parse().ok(), ..held.clone() };
        let waits = Written::waits(Duration::from_secs(1), Label::default());
        for written in [held, moved, permit, waits] {
            assert_eq!(Written::read(written.text().as_bytes()), Some(written));
        }
    }

    #[test]
    fn c49_data_that_is_not_wholly_understood_is_none() {
        let bad = [
            "",
            "claim2 held 1 - - 0 ",
            "claim1 held 1 - - 0",
            "claim1 stands 1 - - 0 ",
            "claim1 held x - - 0 ",
            "claim1 held 1 0 - 0 ",
            "claim1 held 1 - - x ",
            "claim1 held 1 - 0,x 0 ",
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
            "0 ",
            "1795251431457 ",
            "label",
            " ",
            "18446744073709551615",
            "claim1 held 30000 - 1795251431457 ",
        ];
        lock_fuzz::check(|parts| {
            let Some(read) = Written::read(lock_fuzz::text(WORDS, parts).as_bytes()) else {
                return;
            };
            assert_eq!(Written::read(read.text().as_bytes()), Some(read));
        });
    }
}
