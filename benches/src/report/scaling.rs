//! The tables of the page on scaling: the cost of each topology, and its servers for very many locks.

use super::table::{short, told};
use crate::backend::Backend;
use crate::contender::OURS;
use crate::effort::Effort;
use crate::figures::{CPU, CYCLES, Case, Figures, Key, P50, RENEWAL_CPU, REQUESTS, SERVER_CPU};
use crate::stores::topologies as of;
use crate::workloads::{handoff, renewals, throughput, uncontended};

/// Load of the calculation: locks held, and their renewals and acquisitions a second.
const LOCKS: f64 = 1e6;
const TTL_SECONDS: f64 = 30.0;
const RENEWALS_A_SECOND: f64 = 3.0 * LOCKS / TTL_SECONDS;
const ACQUISITIONS_A_SECOND: f64 = 1e5;

/// Highest load of Redis' one thread for scripts.
const BUSY: f64 = 0.7;

const ALONE: Case = Case { name: uncontended::IN_A_LOOP, workers: 1 };
const TASKS: Case = Case { name: throughput::NAME, workers: throughput::TASKS };

/// A measured topology.
struct Topology {
    peer: &'static str,
    label: &'static str,
    /// Number of servers that take requests.
    servers: usize,
    /// Number of servers that are asked for each lock.
    asked: usize,
}

const TOPOLOGIES: [Topology; 6] = [
    Topology { peer: OURS, label: "one Redis", servers: 1, asked: 1 },
    Topology { peer: of::SENTINEL, label: "Sentinel", servers: 1, asked: 1 },
    Topology { peer: of::CLUSTER, label: "Cluster, 3 primaries", servers: 3, asked: 1 },
    Topology { peer: of::QUORUM_OF_THREE, label: "quorum of 3", servers: 3, asked: 3 },
    Topology { peer: of::QUORUM_OF_FIVE, label: "quorum of 5", servers: 5, asked: 5 },
    Topology { peer: of::RSLOCK_ON_THREE, label: "rslock, 3 servers", servers: 3, asked: 3 },
];

pub(super) fn tables(figures: &Figures, effort: Effort) -> String {
    format!("{}\n{}", speed(figures), work(figures, effort))
}

/// Returns the speed of each server.
fn speed(figures: &Figures) -> String {
    let clients = handoff::clients(Backend::Topologies);
    let heads = clients.iter().map(|clients| format!(" hand-off of {clients}: µs |"));
    let heads: String = heads.collect();
    let rule = " --- |".repeat(3 + clients.len());
    let mut table = format!("| | uncontended: µs | 64 tasks: cycles/s |{heads}\n|{rule}\n");
    for topology in &TOPOLOGIES {
        let handoff = |&workers: &usize| (Case { name: handoff::NAME, workers }, P50);
        let cases = [(ALONE, P50), (TASKS, CYCLES)].into_iter().chain(clients.iter().map(handoff));
        let cells = cases.map(|(case, figure)| {
            told(figures, topology.key(case, figure)).unwrap_or_else(|| "none".to_owned())
        });
        table += &row(topology.label, cells);
    }
    table
}

/// Returns the measured needs of each server, and the load that it can bear.
fn work(figures: &Figures, effort: Effort) -> String {
    let mut table = "| | a cycle: requests | client's CPU: µs | servers' CPU: µs | a renewal: servers' CPU: µs \
         | acquisitions/s it bears | beside a million locks | servers for both |\n".to_owned();
    table += &format!("|{}\n", " --- |".repeat(8));
    let renewals = Case { name: renewals::NAME, workers: effort.held };
    for topology in &TOPOLOGIES {
        let figure = |case, figure| figures.median(topology.key(case, figure));
        let cycle = figure(TASKS, SERVER_CPU);
        let renewal = figure(renewals, RENEWAL_CPU);
        let measured = [figure(TASKS, REQUESTS), figure(TASKS, CPU), cycle, renewal];
        let measured = measured.map(|value| value.map(short));
        let sums = match cycle.zip(renewal) {
            Some((cycle, renewal)) => topology.sums(cycle / 1e6, renewal / 1e6).map(Some),
            None => [None, None, None],
        };
        let cells = measured.into_iter().chain(sums).map(Option::unwrap_or_default);
        table += &row(topology.label, cells);
    }
    table
}

impl Topology {
    fn key(&self, case: Case, figure: &'static str) -> Key {
        Key { backend: Backend::Topologies, case, peer: self.peer, figure }
    }

    /// Returns the acquisitions a second that these servers bear, the acquisitions beside very many locks, and
    /// the number of servers for the whole load. `cycle` and `renewal` are CPU seconds of all servers together.
    fn sums(&self, cycle: f64, renewal: f64) -> [String; 3] {
        let cores = BUSY * self.servers as f64;
        let renewals = RENEWALS_A_SECOND * renewal;
        let beside = (cores - renewals).max(0.0) / cycle;
        let together = BUSY * self.asked as f64;
        let sets = ((renewals + ACQUISITIONS_A_SECOND * cycle) / together).ceil();
        let servers = sets * self.asked as f64;
        [thousands(cores / cycle), thousands(beside), format!("{servers:.0}")]
    }
}

fn row(label: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    format!("| {label} |{cells}\n")
}

/// Rounds to a thousand, since the figure is not exact.
fn thousands(value: f64) -> String {
    match (value / 1e3).round() {
        0.0 => "0".to_owned(),
        thousands => format!("{thousands},000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_has_a_row() {
        let rows: Vec<_> = TOPOLOGIES.iter().map(|topology| topology.peer).collect();
        let contenders = Backend::Topologies.contenders().iter();
        assert_eq!(rows, contenders.map(|contender| contender.name).collect::<Vec<_>>());
    }

    #[test]
    fn names_are_parted_among_servers_or_among_quorums() {
        let cluster = Topology { peer: "", label: "", servers: 3, asked: 1 };
        let quorum = Topology { asked: 3, ..cluster };
        let [bear, _, servers] = cluster.sums(30e-6, 0.0);
        assert_eq!((bear.as_str(), servers.as_str()), ("70,000", "5"));
        let [_, beside, servers] = quorum.sums(30e-6, 6e-6);
        assert_eq!((beside.as_str(), servers.as_str()), ("50,000", "6"), "two quorums");
    }
}
