//! Prints the figures to the screen.

use crate::backend::Backend;
use crate::figures::{Figures, Key, P50, P99};
use crate::targets::Verdict;
use crate::workloads::Workload;

/// Prints the figures of a workload: a line for each contender in each case.
pub(crate) fn lines(figures: &Figures, backend: Backend, workload: Workload) {
    let of_workload = |name| workload.cases().contains(&name);
    let figures = figures.iter().filter(|figure| figure.key.backend == backend);
    let figures = figures.filter(|figure| of_workload(figure.key.case.name));
    let mut line = None;
    for figure in figures {
        let (case, peer) = (figure.key.case, figure.key.peer);
        if line != Some((case, peer)) {
            line = Some((case, peer));
            print!("\n{:11}{:30}{:>7}  {peer:22}", backend.name(), case.name, case.workers);
        }
        print!(" {} {}", figure.key.figure, short(figure.median()));
    }
    println!();
}

pub(crate) fn verdicts(verdicts: &[Verdict]) {
    println!("\ntargets, as ratios in this run");
    for verdict in verdicts {
        println!("{}", verdict.line());
    }
}

/// Formats a figure for a table; the p99 follows a p50.
pub(super) fn told(figures: &Figures, key: Key) -> Option<String> {
    let told = short(figures.median(key)?);
    let p99 = figures.median(Key { figure: P99, ..key }).filter(|_| key.figure == P50);
    Some(p99.map_or(told.clone(), |p99| format!("{told} ({})", short(p99))))
}

/// Formats at least three digits, and no meaningless ones.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        much if much >= 100.0 => format!("{value:.0}"),
        some if some >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
