//! Writes the tables and the picture of the README and of the pages on performance and scaling, from the figures
//! of this run.

use std::fs;
use std::path::Path;

use super::table::told;
use super::{picture, scaling};
use crate::backend::Backend;
use crate::client::Result;
use crate::contender::{Contender, OURS};
use crate::figures::{CYCLES, Case, Figures, Key, P50};
use crate::options::Options;
use crate::targets::Verdict;
use crate::workloads::{handoff, hot, throughput, uncontended};

const BEGIN: &str = "<!-- Written by `cargo xtask bench --readme`: -->";
const END: &str = "<!-- until here. -->";

const PICTURE: &str = "docs/handoff.svg";

/// Number of clients of the hand-off in the README's table. The picture shows the others.
const CLIENTS: usize = 64;

const FIGURES_HEAD: &str = "| | floor | Leasehold | peers |\n| --- | --- | --- | --- |\n";
const TARGETS_HEAD: &str = "| target | | ratio | bound | |\n| --- | --- | --- | --- | --- |\n";

/// Rewrites the text between the marks of the pages, and the picture, for the measured backends.
pub(crate) fn write(figures: &Figures, verdicts: &[Verdict], options: &Options) -> Result<()> {
    let (root, backends) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), options.backends());
    if backends.contains(&Backend::Topologies) {
        let tables = scaling::tables(figures, options.effort());
        rewrite(&root.join("docs/scaling.md"), |_| tables)?;
    }
    write_tables(&root, figures, verdicts, &backends)?;
    match Backend::STORES.iter().all(|store| backends.contains(store)) {
        true => Ok(fs::write(root.join(PICTURE), picture::svg(figures)?)?),
        false => Ok(()),
    }
}

fn write_tables(
    root: &Path,
    figures: &Figures,
    verdicts: &[Verdict],
    measured: &[Backend],
) -> Result<()> {
    let table = |clients: &[usize], old: &str| {
        renewed(FIGURES_HEAD, old, measured, rows(figures, &cases(clients)))
    };
    rewrite(&root.join("README.md"), |old| {
        let picture = format!("![Hand-off, by number of clients]({PICTURE})");
        format!("{picture}\n\n{}", table(&[CLIENTS], old))
    })?;
    rewrite(&root.join("docs/performance.md"), |old| {
        let targets = verdicts.iter().map(Verdict::row).collect();
        let targets = renewed(TARGETS_HEAD, old, measured, targets);
        format!("{}\n{targets}", table(&handoff::CLIENTS, old))
    })
}

/// Replaces the text between the marks of a page by the result of `text` on it.
fn rewrite(page: &Path, text: impl FnOnce(&str) -> String) -> Result<()> {
    let old = fs::read_to_string(page)?;
    let no_mark = || format!("{} has no marks", page.display());
    let (before, rest) = old.split_once(BEGIN).ok_or_else(no_mark)?;
    let (between, after) = rest.split_once(END).ok_or_else(no_mark)?;
    Ok(fs::write(page, format!("{before}{BEGIN}\n\n{}\n{END}{after}", text(between)))?)
}

/// Returns a table of the rows of this run, and of the old rows of backends that were not measured.
fn renewed(head: &str, old: &str, measured: &[Backend], rows: Vec<String>) -> String {
    let old = old.split_once(head).map_or("", |(_, rows)| rows);
    let old = old.lines().take_while(|line| line.starts_with('|'));
    let is_kept = |row: &&str| place(row).is_some_and(|(_, store)| !measured.contains(&store));
    let kept = old.filter(is_kept).map(|row| format!("{row}\n"));
    let mut rows: Vec<String> = kept.chain(rows).collect();
    rows.sort_by_key(|row| place(row));
    head.to_owned() + &rows.concat()
}

/// Returns the sort key of a row: the number of its target, if it has one, and its backend.
fn place(row: &str) -> Option<(u32, Backend)> {
    let mut cells = row.split('|').skip(1).map(str::trim);
    let first = cells.next()?;
    let (target, label) = match first.parse() {
        Ok(target) => (target, cells.next()?),
        Err(_) => (0, first),
    };
    let (name, _) = label.split_once(',')?;
    let store = Backend::STORES.into_iter().find(|store| store.name() == name)?;
    Some((target, store))
}

fn rows(figures: &Figures, cases: &[(Case, &'static str)]) -> Vec<String> {
    let row = |backend| {
        cases.iter().filter_map(move |(case, figure)| row(figures, backend, *case, figure))
    };
    Backend::STORES.into_iter().flat_map(row).collect()
}

/// Returns the rows of a table for each backend: the hand-off for each number of clients.
fn cases(clients: &[usize]) -> Vec<(Case, &'static str)> {
    let handoff = |&workers| (Case { name: handoff::NAME, workers }, P50);
    let mut cases = vec![
        (Case { name: uncontended::IN_A_LOOP, workers: 1 }, P50),
        (Case { name: throughput::NAME, workers: throughput::TASKS }, CYCLES),
        (Case { name: hot::ONE_CLIENT, workers: hot::TASKS }, CYCLES),
    ];
    cases.extend(clients.iter().map(handoff));
    cases
}

/// Returns the label of a case in the table.
fn label(case: Case) -> String {
    let workers = case.workers;
    match case.name {
        throughput::NAME => format!("{workers} tasks, a lock each: cycles/s"),
        hot::ONE_CLIENT => format!("{workers} tasks of one client, one lock: cycles/s"),
        handoff::NAME => format!("hand-off among {workers} clients: µs"),
        name => format!("{name}: µs"),
    }
}

/// `None` if the case was not measured.
fn row(figures: &Figures, backend: Backend, case: Case, figure: &'static str) -> Option<String> {
    let told = |peer| Some((peer, told(figures, Key { backend, case, peer, figure })?));
    let (ours, peers): (Vec<Contender>, Vec<Contender>) =
        backend.contenders().iter().partition(|contender| contender.is_ours());
    let names = |contenders: Vec<Contender>| contenders.into_iter().map(|contender| contender.name);
    let ours: Vec<_> = names(ours).filter_map(told).map(without_our_name).collect();
    let peers: Vec<_> = names(peers).filter_map(told).map(named).collect();
    let floors = backend.floor().map(|floor| floor.name).into_iter().chain([backend.wake_up()]);
    let floor = floors.filter_map(told).map(named).next().unwrap_or_default();
    let (backend, label) = (backend.name(), label(case));
    let (row, peers) = (ours.join(" · "), peers.join(" · "));
    (!row.is_empty()).then(|| format!("| {backend}, {label} | {floor} | {row} | {peers} |\n"))
}

fn named((peer, value): (&str, String)) -> String {
    format!("{peer} {value}")
}

/// Removes the project's name, which the column already has; a mode keeps its name.
fn without_our_name((peer, value): (&str, String)) -> String {
    match peer.strip_prefix(OURS).map(str::trim) {
        None | Some("") => format!("**{value}**"),
        Some(mode) => format!("{mode} **{value}**"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_what_was_not_measured_stay() {
        let row = |target, store, ratio| format!("| {target} | {store}, age of 9 | {ratio} |\n");
        let old = [row(1, "redis", 1), row(1, "etcd", 2), row(7, "redis", 3), row(7, "memory", 4)];
        let old = format!("\n| other |\n\n{TARGETS_HEAD}{}\n| other |\n", old.concat());
        let rows = vec![row(1, "redis", 5), row(4, "redis", 6), row(7, "redis", 7)];
        let rows = renewed(TARGETS_HEAD, &old, &[Backend::Redis], rows);
        let expected = [
            row(1, "redis", 5),
            row(1, "etcd", 2),
            row(4, "redis", 6),
            row(7, "redis", 7),
            row(7, "memory", 4),
        ];
        assert_eq!(rows, format!("{TARGETS_HEAD}{}", expected.concat()));
    }

    #[test]
    fn a_row_of_figures_has_its_place_by_its_backend() {
        assert_eq!(place("| file, hand-off among 2 clients: µs | 1 |"), Some((0, Backend::File)));
        assert_eq!(place("| --- | --- |"), None);
    }
}
