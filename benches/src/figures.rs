//! The figures of a run.

use serde::Serialize;

use crate::backend::Backend;

/// Median time, in µs.
pub(crate) const P50: &str = "p50_us";
/// 99th percentile of the time, in µs.
pub(crate) const P99: &str = "p99_us";
pub(crate) const CYCLES: &str = "cycles_per_s";
/// CPU of the clients' process for an acquire and a release.
pub(crate) const CPU: &str = "client_cpu_us_per_cycle";
/// CPU of the servers that take requests, for an acquire and a release.
pub(crate) const SERVER_CPU: &str = "server_cpu_us_per_cycle";
/// CPU of the servers that take requests, for a renewal; each hold is renewed in a third of the TTL.
pub(crate) const RENEWAL_CPU: &str = "server_cpu_us_per_renewal";
/// Requests of an acquire and a release, including those of waiters.
pub(crate) const REQUESTS: &str = "requests_per_cycle";
/// Requests in a second while nothing happens.
pub(crate) const REQUESTS_PER_S: &str = "requests_per_s";
/// Turns of the slowest client divided by turns of the fastest.
pub(crate) const FAIRNESS: &str = "slowest_by_fastest";
/// Share of a core that the clients' process uses.
pub(crate) const CLIENT_CORES: &str = "client_cores";
/// Share of a core that the server uses.
pub(crate) const SERVER_CORES: &str = "server_cores";
pub(crate) const BYTES: &str = "bytes_per_hold";
/// Requests in a third of the TTL, in which each hold is renewed once.
pub(crate) const RENEWALS: &str = "requests_per_100_renewals";
/// Bytes on the machine's loopback, with answers and headers, while each hold is renewed once.
pub(crate) const RENEWAL_BYTES: &str = "bytes_per_renewal";
pub(crate) const LOST: &str = "lost";
/// The p50 at the end of a long life, divided by the p50 at its beginning.
pub(crate) const LAST_BY_FIRST: &str = "last_by_first";

/// Share of its cycles that a client keeps in a storm.
pub(crate) const KEPT: &str = "share_of_cycles_kept";
/// Time until a lock is free after a storm, in ms.
pub(crate) const FREE_AFTER: &str = "free_after_ms";
/// Share of the waiting callers that got in.
pub(crate) const GOT_IN: &str = "share_that_got_in";

/// Time to connect, in ms.
pub(crate) const CONNECTED_AFTER: &str = "connected_after_ms";
/// Time until all clients of a crowd have had the lock, in s.
pub(crate) const ALL_IN_AFTER: &str = "all_in_after_s";
/// Connections that the server serves.
pub(crate) const SESSIONS: &str = "sessions";
/// Lines that the server writes to its log in a second.
pub(crate) const LOG_LINES: &str = "log_lines_per_s";

/// A case of a workload, and its number of clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Case {
    #[serde(rename = "workload")]
    pub(crate) name: &'static str,
    pub(crate) workers: usize,
}

/// Key of a figure: its name, contender, case and backend.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Key {
    #[serde(serialize_with = "by_name")]
    pub(crate) backend: Backend,
    #[serde(flatten)]
    pub(crate) case: Case,
    pub(crate) peer: &'static str,
    pub(crate) figure: &'static str,
}

/// One figure, of each round.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    #[serde(flatten)]
    pub(crate) key: Key,
    median: f64,
    rounds: Vec<f64>,
}

#[derive(Default)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    pub(crate) fn note(&mut self, key: Key, value: f64) {
        match self.0.iter_mut().find(|figure| figure.key == key) {
            Some(figure) => {
                figure.rounds.push(value);
                figure.median = median(figure.rounds.clone());
            }
            None => self.0.push(Figure { key, median: value, rounds: vec![value] }),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter()
    }

    pub(crate) fn median(&self, key: Key) -> Option<f64> {
        self.find(key).map(|figure| figure.median)
    }

    /// Returns the median of the ratio of two figures in each round, so that a slow round affects both. If one of
    /// them is missing in some round, returns the ratio of their medians.
    pub(crate) fn ratio(&self, one: Key, other: Key) -> Option<f64> {
        let (one, other) = (self.find(one)?, self.find(other)?);
        if one.rounds.len() != other.rounds.len() {
            return Some(one.median / other.median);
        }
        let pairs = one.rounds.iter().zip(&other.rounds);
        Some(median(pairs.map(|(one, other)| one / other).collect()))
    }

    fn find(&self, key: Key) -> Option<&Figure> {
        self.0.iter().find(|figure| figure.key == key)
    }
}

impl Figure {
    pub(crate) fn median(&self) -> f64 {
        self.median
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}

fn by_name<S: serde::Serializer>(backend: &Backend, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(backend.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::handoff;

    fn key(peer: &'static str) -> Key {
        let case = Case { name: handoff::NAME, workers: 64 };
        Key { backend: Backend::Etcd, case, peer, figure: P50 }
    }

    #[test]
    fn rounds_are_compared_unless_one_is_missing() {
        let mut figures = Figures::default();
        for (ours, theirs) in [(1.0, 2.0), (10.0, 10.0), (3.0, 1.0)] {
            figures.note(key("ours"), ours);
            figures.note(key("theirs"), theirs);
        }
        assert_eq!(figures.ratio(key("ours"), key("theirs")), Some(1.0));
        figures.note(key("theirs"), 8.0);
        assert_eq!(figures.ratio(key("ours"), key("theirs")), Some(3.0 / 5.0));
    }
}
