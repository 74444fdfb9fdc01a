//! A lock as the commands show it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::admin::{Holder, LockState};
use leasehold::core::{Label, Slots};
use leasehold::{FencingToken, Kind, LockName};
use serde::{Serialize, Serializer};

/// View of a lock. The names of the fields are the keys of the JSON. The fields of the first holder are beside the
/// name.
///
/// In JSON, name and label are data, as they were given. For people `Display` shows them, with nothing hidden.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockView {
    pub(crate) name: LockName,
    pub(crate) held: bool,
    /// All null if nobody holds it.
    #[serde(flatten)]
    pub(crate) first: HolderView,
    pub(crate) waiters: Option<u64>,
    /// C38: all holders, with the first.
    pub(crate) holders: Vec<HolderView>,
}

/// View of a holder.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct HolderView {
    pub(crate) owner: Option<String>,
    pub(crate) token: Option<u64>,
    pub(crate) ttl_ms: Option<u64>,
    /// C45: the time of the grant on the server's clock, in ms since 1970.
    pub(crate) since_ms: Option<u64>,
    pub(crate) label: Option<Label>,
    #[serde(serialize_with = "as_text")]
    kind: Option<Kind>,
    slots: Slots,
}

impl HolderView {
    /// Returns the kind of its hold: `exclusive`, `shared`, or a text like `2 of 5, slots 0,3`.
    pub(crate) fn kind(&self) -> String {
        let kind = self.kind.unwrap_or_default();
        match self.slots.as_slice() {
            [] => kind.to_string(),
            [slot] => format!("{kind}, slot {slot}"),
            _ => format!("{kind}, slots {}", self.slots),
        }
    }

    pub(crate) fn ttl(&self) -> String {
        match self.ttl_ms {
            Some(ms) => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
            None => "for ever".to_owned(),
        }
    }

    /// Returns the time of the grant: `2026-03-01T14:03:22Z`.
    pub(crate) fn since(&self) -> Option<String> {
        shown(self.since_ms)
    }

    /// Returns the age of the hold, if this machine's clock is not behind the server's.
    pub(crate) fn age(&self) -> Option<Duration> {
        let age = SystemTime::now().duration_since(time(self.since_ms)?).ok()?;
        Some(Duration::from_secs(age.as_secs()))
    }

    /// Returns a line with times: `"web-3:4711" (…) since 2026-03-01T14:03:22Z, 29.3 s left`.
    pub(crate) fn with_times(&self) -> String {
        let since = self.since().map(|since| format!(" since {since}")).unwrap_or_default();
        let left = if self.ttl_ms.is_some() { " left" } else { "" };
        format!("{self}{since}, {}{left}", self.ttl())
    }
}

/// Shows `"web-3:4711" (owner 1a2b3c4d, token 17)`. A kind that is not exclusive is shown too.
impl fmt::Display for HolderView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = [
            self.owner.as_ref().map(|owner| format!("owner {owner}")),
            self.token.map(|token| format!("token {token}")),
            self.kind.filter(|kind| *kind != Kind::Exclusive).map(|_| self.kind()),
        ];
        let known = known.into_iter().flatten().collect::<Vec<_>>().join(", ");
        match (&self.label, known.is_empty()) {
            (Some(label), false) => write!(f, "\"{label}\" ({known})"),
            (Some(label), true) => write!(f, "\"{label}\""),
            (None, false) => f.write_str(&known),
            (None, true) => f.write_str("a client that is not one of ours"),
        }
    }
}

fn as_text<S: Serializer>(kind: &Option<Kind>, serializer: S) -> Result<S::Ok, S::Error> {
    kind.map(|kind| kind.to_string()).serialize(serializer)
}

/// Returns a time in ms since 1970, as in JSON.
pub(crate) fn since_1970(at: SystemTime) -> Option<u64> {
    Some(millis(at.duration_since(UNIX_EPOCH).ok()?))
}

/// Returns a time in ms since 1970 as text for people.
pub(crate) fn shown(since_ms: Option<u64>) -> Option<String> {
    Some(humantime::format_rfc3339_seconds(time(since_ms)?).to_string())
}

/// Anybody may have written the server's data: a time beyond the digits of RFC 3339 is not shown.
fn time(since_ms: Option<u64>) -> Option<SystemTime> {
    const YEAR_10000_MS: u64 = 253_402_300_800_000;
    let ms = since_ms.filter(|ms| *ms < YEAR_10000_MS)?;
    Some(UNIX_EPOCH + Duration::from_millis(ms))
}

impl From<LockState> for LockView {
    fn from(state: LockState) -> Self {
        let holders: Vec<HolderView> = state.holders.into_iter().map(HolderView::from).collect();
        let first = holders.first().cloned().unwrap_or_default();
        let held = !holders.is_empty();
        Self { name: state.name, held, first, waiters: state.waiters, holders }
    }
}

impl From<Holder> for HolderView {
    fn from(holder: Holder) -> Self {
        let Holder { owner, token, ttl_left, label, since, kind, slots, .. } = holder;
        Self {
            owner,
            token: token.map(FencingToken::get),
            ttl_ms: ttl_left.map(millis),
            since_ms: since.and_then(since_1970),
            label: Some(label).filter(|label| !label.as_str().is_empty()),
            kind: Some(kind),
            slots,
        }
    }
}

/// Shows `held by … since 2026-03-01T14:03:22Z, 29.3 s left, 2 waiting`, and a line for each further holder.
impl fmt::Display for LockView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.held {
            true => write!(f, "held by {}", self.first.with_times())?,
            false => f.write_str("free")?,
        }
        if let Some(waiters) = self.waiters.filter(|waiters| *waiters > 0) {
            write!(f, ", {waiters} waiting")?;
        }
        let mut others = self.holders.iter().skip(1);
        others.try_for_each(|holder| write!(f, "\n  and by {}", holder.with_times()))
    }
}

fn millis(span: Duration) -> u64 {
    span.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_since(since_ms: Option<u64>) -> HolderView {
        HolderView { since_ms, ..HolderView::default() }
    }

    #[test]
    fn c45_a_time_is_shown_that_has_four_digits_for_its_year() {
        for (since_ms, shown) in [
            (None, None),
            (Some(0), Some("1970-01-01T00:00:00Z")),
            (Some(1_772_373_802_999), Some("2026-03-01T14:03:22Z")),
            (Some(253_402_300_799_999), Some("9999-12-31T23:59:59Z")),
            (Some(253_402_300_800_000), None),
            (Some(u64::MAX), None),
        ] {
            assert_eq!(held_since(since_ms).since().as_deref(), shown);
        }
    }

    #[test]
    fn c45_a_server_whose_clock_is_ahead_gives_no_age() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let an_hour = Duration::from_secs(3600);
        assert_eq!(held_since(Some(millis(now + an_hour))).age(), None);
        assert!(held_since(Some(millis(now - an_hour))).age() >= Some(an_hour));
    }
}
