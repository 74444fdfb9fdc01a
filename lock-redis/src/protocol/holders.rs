//! Reads the holders from the value of a lock's key, as `granting.lua` writes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::backend::ServerTime;
use lock_core::{Holder, Kind, Label, Permits, Slots};

/// Returns the holders of the lock whose key has this value, in the order of their grants. `left` is the TTL left of
/// the key. Any other value is a foreign client's.
pub(crate) fn holders(value: &[u8], left: Option<Duration>, now: ServerTime) -> Vec<Holder> {
    let text = str::from_utf8(value).ok();
    let one = || text.and_then(|text| alone(text, left)).map(|holder| vec![holder]);
    let several = text.and_then(|text| beside_each_other(text, now));
    several.or_else(one).unwrap_or_else(|| vec![Holder::foreign(left)])
}

/// Parses `owner:token:since:label`.
fn alone(text: &str, left: Option<Duration>) -> Option<Holder> {
    let mut parts = text.splitn(4, ':');
    let mut part = || parts.next();
    let (owner, token) = (part()?.parse().ok()?, part()?.parse().ok()?);
    let since = time(part()?)?;
    Some(Holder::ours(owner, token, left?, Label::new(part()?).ok()?).since(since))
}

/// Parses the mark of the kind, and a line for each hold; skips holds that have ended.
fn beside_each_other(text: &str, now: ServerTime) -> Option<Vec<Holder>> {
    let (mark, lines) = text.strip_prefix('*')?.split_once('\n')?;
    let holders = lines.split('\n').map(|line| line_of(mark, line, now));
    let holders = holders.collect::<Option<Vec<Holder>>>()?;
    Some(holders.into_iter().filter(|holder| holder.ttl_left > Some(Duration::ZERO)).collect())
}

/// Parses `owner:token:expires:since:slots:label`.
fn line_of(mark: &str, line: &str, now: ServerTime) -> Option<Holder> {
    let mut parts = line.splitn(6, ':');
    let mut part = || parts.next();
    let (owner, token) = (part()?.parse().ok()?, part()?.parse().ok()?);
    let left = Duration::from_millis(part()?.parse().ok()?).saturating_sub(now.0);
    let since = time(part()?)?;
    let (kind, slots) = kind_of(mark, part()?)?;
    let holder = Holder::ours(owner, token, left, Label::new(part()?).ok()?);
    Some(holder.since(since).of_kind(kind, slots))
}

/// Parses a time in ms since 1970 (C45).
fn time(millis: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))
}

/// Returns the kind for `mark`, without its `*`, of a hold with these slots.
fn kind_of(mark: &str, slots: &str) -> Option<(Kind, Slots)> {
    if mark.is_empty() {
        return slots.is_empty().then_some((Kind::Shared, Slots::NONE));
    }
    let slots = Slots::parse(slots)?;
    let taken = u16::try_from(slots.as_slice().len()).ok()?;
    Some((Kind::OneOf(Permits::new(taken, mark.parse().ok()?).ok()?), slots))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "0123456789abcdef0123456789abcdef";

    const NOW: ServerTime = ServerTime(Duration::from_micros(1_795_251_431_457_582));

    fn read(rest: &str) -> Holder {
        let value = format!("{OWNER}:7:{rest}");
        holders(value.as_bytes(), Some(Duration::from_secs(1)), NOW).pop().expect("a holder")
    }

    #[test]
    fn c45_a_value_tells_when_it_was_granted() {
        let holder = read("1795251431457:a:label");
        assert_eq!(holder.since, Some(UNIX_EPOCH + Duration::from_millis(1_795_251_431_457)));
        assert_eq!(holder.label.as_str(), "a:label");
    }

    #[test]
    fn c29_any_other_value_is_a_foreign_clients() {
        let ttl = Some(Duration::from_secs(1));
        let unfinished = format!("*\n{OWNER}:7:1795251431500");
        for value in [
            "",
            "theirs",
            OWNER,
            &format!("{OWNER}:x:1:"),
            &format!("{OWNER}:7:a label"),
            "0123:7:1:",
            "*",
            "*5\n",
            &unfinished,
        ] {
            assert_eq!(holders(value.as_bytes(), ttl, NOW), [Holder::foreign(ttl)], "{value}");
        }
    }

    #[test]
    fn c38_holds_beside_each_other_have_a_line_each() {
        let line =
            |token: u64, expires: u64, rest: &str| format!("\n{OWNER}:{token}:{expires}:{rest}");
        let value = [
            "*5".to_owned(),
            line(7, 1_795_251_431_458, "1795251431400:0,2:a:label"),
            line(8, 1_795_251_431_457, "1795251431400:1:over"),
            line(9, 1_795_251_431_460, "1795251431400:3:"),
        ];
        let shown = holders(value.concat().as_bytes(), None, NOW);
        let tokens: Vec<_> = shown.iter().filter_map(|holder| holder.token).collect();
        assert_eq!(tokens.iter().map(|token| token.get()).collect::<Vec<_>>(), [7, 9]);
        let first = &shown[0];
        assert_eq!(
            (first.kind.to_string(), first.slots.as_slice()),
            ("2 of 5".into(), &[0, 2][..])
        );
        assert_eq!(
            (first.label.as_str(), first.ttl_left),
            ("a:label", Some(Duration::from_micros(418)))
        );
        let shared = ["*".to_owned(), line(7, 1_795_251_431_458, "1795251431400::")].concat();
        assert_eq!(holders(shared.as_bytes(), None, NOW)[0].kind, Kind::Shared);
    }

    /// Each value is read as holders without their full owners, or as a foreign holder.
    #[test]
    fn fuzz_holders() {
        const WORDS: &[&str] = &[
            "0123456789abcdef0123456789abcdef",
            ":",
            ":7:",
            "1795251431460:",
            "1795251431457:",
            "*",
            "*5",
            "\n",
            "0,2",
            "0:",
            "::",
            "label",
            "18446744073709551615",
            "0123456789abcdef0123456789abcdef:7:1795251431460:1795251431457:",
        ];
        lock_fuzz::check(|parts| {
            let value = lock_fuzz::text(WORDS, parts);
            let holders = holders(value.as_bytes(), Some(Duration::from_secs(1)), NOW);
            assert!(
                holders
                    .iter()
                    .filter_map(|holder| holder.owner.as_ref())
                    .all(|owner| owner.len() == 8 && value.contains(owner)),
                "{value:?}: {holders:?}"
            );
        });
    }
}
