//! The workers of a run, and the networks between them and the store.

use std::net::SocketAddr;
use std::path::Path;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::plan::Plan;
use super::rng::Rng;
use super::store::Store;
use super::usage::Usage;
use super::worker::{Task, work};
use crate::process::child::{self, Child};
use crate::{Mode, Proxy};

/// Ends a worker.
pub(super) const STOP: &str = "stop";

/// The workers, each with its own network, if the store is reached by one.
pub(super) struct Crew {
    seats: Vec<Seat>,
}

/// A worker's place. A killed worker is replaced.
pub(super) struct Seat {
    number: usize,
    /// Number of earlier workers in this place.
    generation: u64,
    task: Task,
    pub(super) network: Option<Proxy>,
    runner: Runner,
}

enum Runner {
    Process(Box<Child>),
    Task { stop: watch::Sender<bool>, running: JoinHandle<()> },
}

impl Crew {
    pub(super) async fn start<S: Store>(store: &S, plan: &Plan, folder: &Path) -> Self {
        let mut seats = Vec::new();
        for number in 0..plan.workers {
            let network = match store.address() {
                Some(address) => Some(Proxy::start(address).await),
                None => None,
            };
            let address: Option<SocketAddr> = network.as_ref().map(Proxy::addr);
            let task = Task {
                who: format!("w{number}.0"),
                url: store.url(address),
                folder: folder.to_owned(),
                seed: Rng::new(plan.seed, 100 + number as u64).below(u64::MAX),
                is_reckless: plan.is_reckless,
            };
            let runner = Runner::start::<S>(&task);
            seats.push(Seat { number, generation: 0, task, network, runner });
        }
        Self { seats }
    }

    pub(super) fn pick(&mut self, rng: &mut Rng) -> &mut Seat {
        let number = rng.below(self.seats.len() as u64) as usize;
        &mut self.seats[number]
    }

    /// Lets all networks pass.
    pub(super) fn heal(&self) {
        self.seats.iter().flat_map(|seat| &seat.network).for_each(|proxy| proxy.set(Mode::Pass));
    }

    /// Lets all workers finish their current work, and wait.
    ///
    /// # Panics
    /// If they are tasks of this process: resources are counted for processes.
    pub(super) async fn rest(&mut self) {
        for child in self.processes() {
            child.tell("rest").await;
        }
        for child in self.processes() {
            assert_eq!(child.line().await, "resting");
        }
    }

    /// Counts the resources of all workers, which rest and go on afterwards.
    pub(super) async fn measure(&mut self, records: u64) -> Usage {
        let mut usage = Usage::of_a_store(records);
        for child in self.processes() {
            child.tell("measure").await;
            usage += child.line().await.parse().expect("well-formed figures");
            child.tell("go on").await;
        }
        usage
    }

    fn processes(&mut self) -> impl Iterator<Item = &mut Child> {
        self.seats.iter_mut().map(|seat| match &mut seat.runner {
            Runner::Process(child) => &mut **child,
            Runner::Task { .. } => panic!("a soak needs workers that are processes"),
        })
    }

    /// Lets all workers finish their current work, and give everything back.
    pub(super) async fn stop(&mut self) {
        for seat in &mut self.seats {
            match &mut seat.runner {
                Runner::Process(child) => child.tell(STOP).await,
                Runner::Task { stop, .. } => {
                    stop.send_replace(true);
                }
            }
        }
        for seat in &mut self.seats {
            match &mut seat.runner {
                Runner::Process(child) => assert_eq!(child.line().await, "done"),
                Runner::Task { running, .. } => running.await.expect("no panic"),
            }
        }
    }
}

impl Runner {
    fn start<S: Store>(task: &Task) -> Self {
        if S::IN_PROCESSES {
            let variables = task.to_environment();
            let variables: Vec<_> = variables.iter().map(|(name, said)| (*name, &**said)).collect();
            return Self::Process(Box::new(child::spawn("chaos worker", &variables)));
        }
        let (stop, stopped) = watch::channel(false);
        Self::Task { stop, running: tokio::spawn(work::<S>(task.clone(), stopped)) }
    }
}

impl Seat {
    /// Returns the name of the present worker.
    pub(super) fn who(&self) -> &str {
        &self.task.who
    }

    /// Stops the worker's process, if it has one.
    pub(super) fn pause(&self) {
        if let Runner::Process(child) = &self.runner {
            child.stop();
        }
    }

    pub(super) fn go_on(&self) {
        if let Runner::Process(child) = &self.runner {
            child.cont();
        }
    }

    /// Kills the worker, if it is a process, and starts another in its place.
    pub(super) async fn replace<S: Store>(&mut self, rng: &mut Rng) {
        let Runner::Process(child) = &mut self.runner else { return };
        child.kill().await;
        self.generation += 1;
        self.task.who = format!("w{}.{}", self.number, self.generation);
        self.task.seed = rng.below(u64::MAX);
        self.runner = Runner::start::<S>(&self.task);
    }
}
