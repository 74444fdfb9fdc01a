//! The tables and the picture of the README and of the pages on performance and on scaling, from the figures of
//! this run.

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

/// How many clients hand a lock on in the README's table. The picture has the others.
const CLIENTS: usize = 64;

/// Rewrites what stands between the marks of the pages, and the picture, as far as it was measured.
pub(crate) fn write(figures: &Figures, verdicts: &[Verdict], options: &Options) -> Result<()> {
    let (root, backends) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), options.backends());
    if backends.contains(&Backend::Topologies) {
        let tables = scaling::tables(figures, options.effort());
        rewrite(&root.join("docs/scaling.md"), &tables)?;
    }
    match backends.iter().any(|backend| Backend::STORES.contains(backend)) {
        true => write_stores(&root, figures, verdicts),
        false => Ok(()),
    }
}

fn write_stores(root: &Path, figures: &Figures, verdicts: &[Verdict]) -> Result<()> {
    let short = table(figures, &cases(&[CLIENTS]));
    let picture = format!("![Hand-off, by number of clients]({PICTURE})");
    rewrite(&root.join("README.md"), &format!("{picture}\n\n{short}"))?;
    let whole = table(figures, &cases(&handoff::CLIENTS));
    rewrite(&root.join("docs/performance.md"), &format!("{whole}\n{}", targets(verdicts)))?;
    Ok(fs::write(root.join(PICTURE), picture::svg(figures)?)?)
}

fn rewrite(page: &Path, text: &str) -> Result<()> {
    let old = fs::read_to_string(page)?;
    let no_mark = || format!("{} has no marks", page.display());
    let (before, rest) = old.split_once(BEGIN).ok_or_else(no_mark)?;
    let (_, after) = rest.split_once(END).ok_or_else(no_mark)?;
    Ok(fs::write(page, format!("{before}{BEGIN}\n\n{text}\n{END}{after}"))?)
}

fn targets(verdicts: &[Verdict]) -> String {
    let rows = verdicts.iter().map(Verdict::row);
    "| target | | ratio | bound | |\n| --- | --- | --- | --- | --- |\n".to_owned()
        + &rows.collect::<String>()
}

fn table(figures: &Figures, cases: &[(Case, &'static str)]) -> String {
    let mut table = "| | floor | Leasehold | peers |\n| --- | --- | --- | --- |\n".to_owned();
    for backend in Backend::STORES {
        for (case, figure) in cases {
            table.extend(row(figures, backend, *case, figure));
        }
    }
    table
}

/// What a table tells of each backend: hand-off among so many clients.
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

/// What a case is called in the table.
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

/// The column says who it is; a mode is named.
fn without_our_name((peer, value): (&str, String)) -> String {
    match peer.strip_prefix(OURS).map(str::trim) {
        None | Some("") => format!("**{value}**"),
        Some(mode) => format!("{mode} **{value}**"),
    }
}
