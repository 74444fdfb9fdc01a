//! Targets of the project, as ratios within one run.
//!
//! 1 uncontended, 2 requests, 3 throughput, 4 hand-off, 5 the hot lock, 6 scale, 7 age, 8 storms, 9 short waits.

use serde::Serialize;

use crate::backend::Backend::{self, Etcd, File, Memory, Postgres, Redis, Topologies, ZooKeeper};
use crate::contender::OURS;
use crate::effort::Effort;
use crate::figures::{
    BYTES, CLIENT_CORES, CONNECTED_AFTER, CPU, CYCLES, Case, FAIRNESS, FREE_AFTER, Figures, GOT_IN,
    KEPT, Key, LAST_BY_FIRST, P50, P99, RENEWAL_BYTES, RENEWALS, REQUESTS, REQUESTS_PER_S,
    SERVER_CORES,
};
use crate::stores::redis::WITH_A_TOKEN;
use crate::workloads::{
    age, beside, connect, crowd, handoff, held, hot, short_waits, storms, throughput, uncontended,
    waiting,
};

/// Factor for pings: clients now and then check their connections.
const PINGS: f64 = 1.05;

/// One figure of the project, alone or divided by another, and its bound.
struct Target {
    number: u8,
    figure: Key,
    by: By,
    bound: Bound,
}

enum By {
    Itself,
    Other(Key),
    /// The best of the other contenders, in the same case.
    BestPeer,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Verdict on a target.
#[derive(Serialize)]
pub(crate) struct Verdict {
    target: u8,
    what: String,
    value: f64,
    bound: String,
    reached: bool,
}

/// Returns the verdicts on the targets whose figures were measured.
pub(crate) fn verdicts(figures: &Figures, effort: Effort) -> Vec<Verdict> {
    let targets = Backend::STORES.into_iter().flat_map(|backend| of_backend(backend, effort));
    let mut verdicts: Vec<_> = targets.filter_map(|target| target.verdict(figures)).collect();
    verdicts.sort_by_key(|verdict| verdict.target);
    verdicts
}

fn of_backend(backend: Backend, effort: Effort) -> Vec<Target> {
    let mut targets = match backend {
        Redis => redis(),
        Memory => Vec::new(),
        File => file(),
        Etcd => etcd(),
        Postgres => postgres(),
        Topologies | ZooKeeper => return Vec::new(),
    };
    targets.extend(of_all(backend));
    targets.extend(scale(backend, effort));
    targets.extend(impatience(backend, effort));
    targets
}

fn redis() -> Vec<Target> {
    let of = |number, name, workers, figure| Target::new(Redis, number, name, workers, figure);
    let mut targets = vec![
        of(1, uncontended::IN_A_LOOP, 1, P50).by(WITH_A_TOKEN).at_most(1.15),
        of(1, uncontended::IN_A_TASK, 1, P50).by(WITH_A_TOKEN).at_most(1.15),
        of(2, throughput::NAME, throughput::TASKS, REQUESTS).at_most(2.0 * PINGS),
        of(3, throughput::NAME, throughput::TASKS, CYCLES).by(WITH_A_TOKEN).at_least(0.8),
        of(3, throughput::NAME, throughput::TASKS, CPU).at_most(20.0),
        of(5, hot::ONE_CLIENT, hot::TASKS, CYCLES).by("rslock").at_least(10.0),
        of(5, hot::PROCESSES, hot::TASKS, CYCLES).by_best_peer().at_least(5.0),
    ];
    for clients in handoff::CLIENTS {
        let most = if clients > 64 { 1.6 } else { 1.3 };
        targets.push(of(4, handoff::NAME, clients, P50).by_wake_up().at_most(most));
        targets.push(of(4, handoff::NAME, clients, P99).by_wake_up().at_most(4.0));
        targets.push(of(4, handoff::NAME, clients, REQUESTS).at_most(2.0 * PINGS));
    }
    targets
}

fn etcd() -> Vec<Target> {
    let of = |number, name, workers, figure| Target::new(Etcd, number, name, workers, figure);
    let mut targets = vec![
        of(1, uncontended::IN_A_LOOP, 1, P50).by("put and delete").at_most(1.1),
        of(1, uncontended::AFTER_A_PAUSE, 1, P50).by("put and delete").at_most(1.1),
        of(2, throughput::NAME, throughput::TASKS, REQUESTS).at_most(2.0 * PINGS),
        of(3, throughput::NAME, throughput::TASKS, CYCLES).by("Lock RPC").at_least(1.2),
    ];
    for clients in handoff::CLIENTS {
        targets.push(of(4, handoff::NAME, clients, P50).by_wake_up().at_most(1.5));
        targets.push(of(4, handoff::NAME, clients, P50).by("Lock RPC").at_most(1.0));
    }
    targets
}

fn postgres() -> Vec<Target> {
    let of = |number, name, workers, figure| Target::new(Postgres, number, name, workers, figure);
    let mut targets = vec![
        of(1, uncontended::IN_A_LOOP, 1, P50).by("two upserts").at_most(1.0),
        of(3, throughput::NAME, throughput::TASKS, CYCLES).by("two upserts").at_least(0.9),
        of(4, handoff::NAME, 256, P50).by_clients(2).at_most(2.0),
    ];
    for clients in handoff::CLIENTS {
        targets.push(of(4, handoff::NAME, clients, P50).by_wake_up().at_most(2.0));
    }
    targets
}

fn file() -> Vec<Target> {
    let of = |number, name, workers, figure| Target::new(File, number, name, workers, figure);
    let mut targets = vec![of(4, handoff::NAME, 256, P50).by_clients(2).at_most(2.0)];
    for clients in handoff::CLIENTS {
        targets.push(of(4, handoff::NAME, clients, P50).by_wake_up().at_most(5.0));
    }
    targets
}

/// Targets of each backend for fairness: waiters are treated alike.
fn of_all(backend: Backend) -> Vec<Target> {
    let of = |number, name, workers| Target::new(backend, number, name, workers, FAIRNESS);
    let mut targets = vec![of(5, hot::PROCESSES, hot::TASKS).at_least(0.5)];
    for clients in handoff::CLIENTS {
        targets.push(of(4, handoff::NAME, clients).at_least(0.9));
    }
    targets
}

/// Targets of each backend for callers that give up, and for short waits. A figure that was not measured gets no
/// verdict.
fn impatience(backend: Backend, effort: Effort) -> Vec<Target> {
    let of =
        |number, case: Case, figure| Target::new(backend, number, case.name, case.workers, figure);
    let mut targets = Vec::new();
    for storm in &storms::STORMS {
        targets.push(of(8, storm.case, KEPT).at_least(1.0 / 3.0));
        targets.push(of(8, storm.case, FREE_AFTER).at_most(50.0));
    }
    let short_waits = Case { name: short_waits::NAME, workers: short_waits::arrivals(effort) };
    targets.push(of(9, short_waits, GOT_IN).at_least(0.75));
    targets
}

/// Targets of each backend for large numbers.
fn scale(backend: Backend, effort: Effort) -> Vec<Target> {
    let of = |number, name, workers, figure| Target::new(backend, number, name, workers, figure);
    let beside = |figure, most| {
        let alone = Case { name: beside::ALONE, workers: effort.beside };
        of(6, beside::BESIDE, effort.beside, figure).by_case(alone).at_most(most)
    };
    let mut targets = vec![
        of(2, held::NAME, effort.held, RENEWALS).at_most(1.0 * PINGS),
        of(6, held::NAME, effort.held, CLIENT_CORES).at_most(0.03),
        of(6, held::NAME, effort.held, BYTES).at_most(2.5 * 1024.0),
        beside(P50, 1.2),
        beside(P99, 2.0),
        of(7, age::NAME, effort.cycles, LAST_BY_FIRST).at_most(1.2),
        of(7, age::BESIDE_A_SNAPSHOT, effort.cycles, LAST_BY_FIRST).at_most(1.2),
    ];
    if backend == Postgres {
        targets.push(of(6, connect::NAME, connect::names(effort), CONNECTED_AFTER).at_most(50.0));
    }
    if backend == File {
        let crowds = crowd::crowds(effort).into_iter();
        targets.extend(crowds.map(|clients| of(6, crowd::NAME, clients, GOT_IN).at_least(1.0)));
    }
    if backend == Etcd {
        let waiters = waiting::count(backend, effort);
        targets.push(of(6, waiting::NAME, waiters, SERVER_CORES).at_most(0.2));
        targets.push(of(6, waiting::IDLE, waiting::IDLE_HOLDS, REQUESTS_PER_S).at_most(10.0));
        targets.push(of(6, held::NAME, effort.held, RENEWAL_BYTES).at_most(200.0));
    }
    targets
}

impl Target {
    fn new(
        backend: Backend,
        number: u8,
        name: &'static str,
        workers: usize,
        figure: &'static str,
    ) -> Self {
        let case = Case { name, workers };
        let figure = Key { backend, case, peer: OURS, figure };
        Self { number, figure, by: By::Itself, bound: Bound::AtMost(f64::NAN) }
    }

    fn by(self, peer: &'static str) -> Self {
        Self { by: By::Other(Key { peer, ..self.figure }), ..self }
    }

    fn by_case(self, case: Case) -> Self {
        Self { by: By::Other(Key { case, ..self.figure }), ..self }
    }

    fn by_clients(self, workers: usize) -> Self {
        let case = Case { workers, ..self.figure.case };
        self.by_case(case)
    }

    /// Divides by half of the floor's time, also if the figure is a p99.
    fn by_wake_up(self) -> Self {
        let peer = self.figure.backend.wake_up();
        Self { by: By::Other(Key { peer, figure: P50, ..self.figure }), ..self }
    }

    fn by_best_peer(self) -> Self {
        Self { by: By::BestPeer, ..self }
    }

    fn at_most(self, most: f64) -> Self {
        Self { bound: Bound::AtMost(most), ..self }
    }

    fn at_least(self, least: f64) -> Self {
        Self { bound: Bound::AtLeast(least), ..self }
    }

    fn verdict(&self, figures: &Figures) -> Option<Verdict> {
        let (value, by) = match &self.by {
            By::Itself => (figures.median(self.figure)?, None),
            By::Other(other) => (figures.ratio(self.figure, *other)?, Some(*other)),
            By::BestPeer => {
                let best = best_peer(figures, self.figure)?;
                (figures.ratio(self.figure, best)?, Some(best))
            }
        };
        let (bound, reached) = match self.bound {
            Bound::AtMost(most) => (format!("≤ {most:.2}"), value <= most),
            Bound::AtLeast(least) => (format!("≥ {least:.2}"), value >= least),
        };
        let what = self.what(by);
        Some(Verdict { target: self.number, what, value, bound, reached })
    }

    fn what(&self, by: Option<Key>) -> String {
        let Key { backend, case, peer, figure } = self.figure;
        let what = format!("{}, {} of {}: {figure}", backend.name(), case.name, case.workers);
        match by {
            None => what,
            Some(other) if other.peer != peer => format!("{what} ÷ {}", other.peer),
            Some(other) if other.case.name == case.name => {
                format!("{what} ÷ that of {}", other.case.workers)
            }
            Some(other) => format!("{what} ÷ {}", other.case.name),
        }
    }
}

fn best_peer(figures: &Figures, ours: Key) -> Option<Key> {
    let peers = ours.backend.contenders().iter().filter(|contender| !contender.is_ours());
    let keys = peers.map(|peer| Key { peer: peer.name, ..ours });
    let measured = keys.filter_map(|key| Some((key, figures.median(key)?)));
    let best = measured.max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map(|(key, _)| key)
}

impl Verdict {
    /// Returns the line of the printed table.
    pub(crate) fn line(&self) -> String {
        let Self { target, what, value, bound, .. } = self;
        format!("{target}  {what:78} {value:>9.2}  {bound:8} {}", self.outcome())
    }

    /// Returns the row of a table in Markdown.
    pub(crate) fn row(&self) -> String {
        let Self { target, what, value, bound, .. } = self;
        format!("| {target} | {what} | {value:.2} | {bound} | {} |\n", self.outcome())
    }

    fn outcome(&self) -> &'static str {
        if self.reached { "reached" } else { "missed" }
    }
}
