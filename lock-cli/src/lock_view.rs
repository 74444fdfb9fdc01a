//! A lock as the commands show it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{FencingToken, Holder, Label, LockName, LockState};
use serde::Serialize;

/// What is shown of a lock. The names of the fields are the keys of the JSON.
///
/// In JSON name and label are data, as they were given. What people read is their `Display`, in which
/// nothing is hidden.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockView {
    pub(crate) name: LockName,
    pub(crate) held: bool,
    pub(crate) owner: Option<String>,
    pub(crate) token: Option<u64>,
    pub(crate) ttl_ms: Option<u64>,
    /// C45: since when it is held, on the server's clock, in ms since 1970.
    pub(crate) since_ms: Option<u64>,
    pub(crate) label: Option<Label>,
    pub(crate) waiters: Option<u64>,
}

impl LockView {
    /// Who holds it: `web-3:4711 (owner 1a2b3c4d, token 17)`.
    pub(crate) fn holder(&self) -> String {
        let known = [
            self.owner.as_ref().map(|owner| format!("owner {owner}")),
            self.token.map(|token| format!("token {token}")),
        ];
        let known: Vec<_> = known.into_iter().flatten().collect();
        match (&self.label, known.is_empty()) {
            (Some(label), false) => format!("{label} ({})", known.join(", ")),
            (Some(label), true) => label.to_string(),
            (None, false) => known.join(", "),
            (None, true) => "a client that is not one of ours".to_owned(),
        }
    }

    pub(crate) fn ttl(&self) -> String {
        match self.ttl_ms {
            Some(ms) => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
            None => "for ever".to_owned(),
        }
    }

    /// Since when it is held: `2026-03-01T14:03:22Z`.
    pub(crate) fn since(&self) -> Option<String> {
        shown(self.since_ms)
    }

    /// For how long it has been held, if this machine's clock is not behind the server's.
    pub(crate) fn age(&self) -> Option<Duration> {
        let age = SystemTime::now().duration_since(time(self.since_ms)?).ok()?;
        Some(Duration::from_secs(age.as_secs()))
    }
}

/// A time in ms since 1970, as JSON has it.
pub(crate) fn since_1970(at: SystemTime) -> Option<u64> {
    Some(millis(at.duration_since(UNIX_EPOCH).ok()?))
}

/// A time that was given in ms since 1970, as people read it.
pub(crate) fn shown(since_ms: Option<u64>) -> Option<String> {
    Some(humantime::format_rfc3339_seconds(time(since_ms)?).to_string())
}

/// The server's data may be anyone's: a time that RFC 3339 has no digits for is not shown.
fn time(since_ms: Option<u64>) -> Option<SystemTime> {
    const YEAR_10000_MS: u64 = 253_402_300_800_000;
    let ms = since_ms.filter(|ms| *ms < YEAR_10000_MS)?;
    Some(UNIX_EPOCH + Duration::from_millis(ms))
}

impl From<LockState> for LockView {
    fn from(state: LockState) -> Self {
        let holder = state.holder().cloned();
        let free = Self {
            name: state.name,
            held: false,
            owner: None,
            token: None,
            ttl_ms: None,
            since_ms: None,
            label: None,
            waiters: state.waiters,
        };
        match holder {
            None => free,
            Some(Holder { owner, token, ttl_left, label, since, .. }) => Self {
                held: true,
                owner,
                token: token.map(FencingToken::get),
                ttl_ms: ttl_left.map(millis),
                since_ms: since.and_then(since_1970),
                label: Some(label).filter(|label| !label.as_str().is_empty()),
                ..free
            },
        }
    }
}

/// One line: `held by … since 2026-03-01T14:03:22Z, 29.3 s left, 2 waiting`.
impl fmt::Display for LockView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.held {
            f.write_str("free")?;
        } else {
            write!(f, "held by {}", self.holder())?;
            if let Some(since) = self.since() {
                write!(f, " since {since}")?;
            }
            match self.ttl_ms {
                Some(_) => write!(f, ", {} left", self.ttl())?,
                None => f.write_str(", for ever")?,
            }
        }
        match self.waiters {
            None | Some(0) => Ok(()),
            Some(waiters) => write!(f, ", {waiters} waiting"),
        }
    }
}

fn millis(span: Duration) -> u64 {
    span.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_since(since_ms: Option<u64>) -> LockView {
        let name = LockName::new("a").expect("a name");
        let free = LockView::from(LockState::new(name, None, None));
        LockView { held: true, since_ms, ..free }
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
