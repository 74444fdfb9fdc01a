//! R1: the resources in use while all workers rest, which must not grow.

use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::str::FromStr;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::report::Violation;
use super::store::Store;

/// Figures of a rest, with the growth that is no leak: caches and pools that fill, and marks that the store still keeps.
const FIGURES: [(&str, u64); 4] = [
    ("KiB of memory", 12 * 1024),
    ("descriptors", 24),
    ("tasks", 12),
    ("records in the store", 100),
];

/// Place of the records among the figures.
const RECORDS: usize = 3;

/// Longest time after the last rest in which the store forgets: marks of withdrawn claims and records of runs end. On etcd
/// each restart gives them their whole time again, so the rests themselves show how often it was killed.
const FORGETS_WITHIN: Duration = Duration::from_secs(120);

/// Resources in use, as [`FIGURES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage([u64; FIGURES.len()]);

impl Usage {
    pub(super) fn of_a_store(records: u64) -> Self {
        Self([0, 0, 0, records])
    }

    /// Returns the memory, descriptors and tasks of this process.
    pub(super) fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let tasks = Handle::current().metrics().num_alive_tasks();
        Self([memory.unwrap_or(0), descriptors as u64, tasks as u64, 0])
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(figure, more)| *figure += more);
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.0.iter().zip(FIGURES);
        let figures: Vec<_> =
            figures.map(|(figure, (name, _))| format!("{figure} {name}")).collect();
        f.write_str(&figures.join(", "))
    }
}

impl FromStr for Usage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let figures = text.split(", ").filter_map(|part| part.split(' ').next()?.parse().ok());
        let figures: Vec<u64> = figures.collect();
        figures.try_into().map(Self).map_err(|_| format!("no figures: {text}"))
    }
}

/// Waits until the store has no more records than at the first rests, and notes their number as that of the last rests.
pub(super) async fn forgotten<S: Store>(store: &S, rests: &mut [Usage]) {
    let third = rests.len() / 3;
    if third == 0 {
        return;
    }
    let (_, bound) = FIGURES[RECORDS];
    let (first, deadline) = (median(&rests[..third], RECORDS), Instant::now() + FORGETS_WITHIN);
    let mut records = store.records().await;
    while records > first + bound && Instant::now() < deadline {
        sleep(Duration::from_secs(1)).await;
        records = store.records().await;
    }
    let last = rests.len() - third;
    rests[last..].iter_mut().for_each(|rest| rest.0[RECORDS] = records);
}

/// Compares the last third of the rests with the first third, by medians: a figure that grew by a tenth and by more than
/// its bound is a leak.
pub(super) fn growth(rests: &[Usage]) -> Vec<Violation> {
    let third = rests.len() / 3;
    if third == 0 {
        return Vec::new();
    }
    let (first, last) = (&rests[..third], &rests[rests.len() - third..]);
    (0..FIGURES.len())
        .filter_map(|place| {
            let (name, bound) = FIGURES[place];
            let (before, after) = (median(first, place), median(last, place));
            let text = format!("{before} at the first rests, and {after} at the last");
            (after > before + bound.max(before / 10)).then(|| Violation::at_end("R1", name, text))
        })
        .collect()
}

fn median(rests: &[Usage], place: usize) -> u64 {
    let mut figures: Vec<u64> = rests.iter().map(|rest| rest.0[place]).collect();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rests at which one figure grows, by `more` each time.
    fn growing(place: usize, more: u64) -> Vec<Usage> {
        let at = |number| {
            let mut usage = Usage([100_000, 60, 30, 50]);
            usage.0[place] += more * number;
            usage
        };
        (0..15).map(at).collect()
    }

    #[test]
    fn a_leak_of_each_figure_is_found() {
        for (place, (name, bound)) in FIGURES.into_iter().enumerate() {
            assert!(growth(&growing(place, 0)).is_empty(), "{name} is flat");
            let found = growth(&growing(place, bound / 5));
            assert_eq!(found.iter().map(|leak| &*leak.name).collect::<Vec<_>>(), [name]);
        }
    }

    #[tokio::test]
    async fn figures_are_read_as_they_were_written() {
        let usage = Usage::of_this_process();
        assert!(usage.0[..2].iter().all(|figure| *figure > 0 || !cfg!(target_os = "linux")));
        assert_eq!(usage.to_string().parse(), Ok(usage));
    }
}
