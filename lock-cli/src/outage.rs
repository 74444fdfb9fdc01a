//! Reports of an outage: one line at its start, and one a minute.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::terminal;

/// Interval of the lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Report of the outages of the server, unless the user wants no warnings.
pub(crate) struct Outage {
    quiet: bool,
    present: Mutex<Option<Present>>,
}

/// The present outage.
struct Present {
    since: Instant,
    told: Instant,
    failures: u32,
}

impl Outage {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, present: Mutex::default() }
    }

    /// Reports a failure, unless a line of this outage is less than a minute old.
    pub(crate) fn tell(&self, why: &str) {
        if let Some(line) = self.line(why, Instant::now()).filter(|_| !self.quiet) {
            terminal::warning(&line);
        }
    }

    /// Notes an answer of the server.
    pub(crate) fn end(&self) {
        *self.present() = None;
    }

    fn line(&self, why: &str, now: Instant) -> Option<String> {
        let mut present = self.present();
        let Some(outage) = &mut *present else {
            *present = Some(Present { since: now, told: now, failures: 1 });
            return Some(format!("{why}; still a candidate"));
        };
        outage.failures += 1;
        if now.saturating_duration_since(outage.told) < INTERVAL {
            return None;
        }
        outage.told = now;
        let span = Duration::from_secs(now.saturating_duration_since(outage.since).as_secs());
        let (failures, span) = (outage.failures, humantime::format_duration(span));
        Some(format!("{why}; still a candidate after {failures} failures in {span}"))
    }

    fn present(&self) -> MutexGuard<'_, Option<Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c40_an_outage_is_told_at_its_start_and_once_a_minute() {
        let (outage, start) = (Outage::new(false), Instant::now());
        let lines = |from: u64, to: u64| {
            let times = (from..to).map(|second| start + Duration::from_secs(second));
            times.filter_map(|now| outage.line("no answer", now)).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(0, 121),
            [
                "no answer; still a candidate",
                "no answer; still a candidate after 61 failures in 1m",
                "no answer; still a candidate after 121 failures in 2m",
            ]
        );
        outage.end();
        assert_eq!(
            outage.line("no answer", start).as_deref(),
            Some("no answer; still a candidate")
        );
    }
}
