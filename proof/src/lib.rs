//! Leasehold's engine in simulated worlds.
//!
//! A world has a few machines with the real client, a network that loses, delays and doubles messages, and one
//! server: the memory backend, which is the specification. Everything runs on one thread, in Tokio's paused time.
//! One seed decides everything, so a world that breaks a clause can be replayed exactly.

#![allow(clippy::expect_used)]

mod checks;
mod clocks;
mod end;
mod flaw;
mod network;
mod observer;
mod once;
mod plan;
mod register;
mod remote;
mod rng;
mod script;
mod server;
mod spoiled;
mod worker;
mod world;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{ClientOptions, LockClient, Reentrance};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout, timeout_at};

use crate::clocks::MachineClock;
use crate::network::Link;
use crate::plan::{Machine, Plan, Specialty};
use crate::remote::Remote;
use crate::server::Server;
use crate::worker::{Host, Worker};
use crate::world::World;

pub use crate::flaw::Flaw;

/// Longest wait for anything after the world is healed: the longest TTL of a dead machine, once for each of them.
const PATIENCE: Duration = Duration::from_secs(240);

/// A world that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldReport {
    /// Every event, a line each.
    pub trace: String,
    /// Broken clauses.
    pub violations: Vec<String>,
    /// Number of calls of the client.
    pub calls: u64,
    /// Number of requests that were sent.
    pub requests: u64,
    /// Number of holds that a task believed in.
    pub holds: u64,
}

/// Plays the world of `seed`, with a flaw if one is given.
pub fn play(seed: u64, flaw: Option<Flaw>) -> WorldReport {
    lock_core::testing::seed_this_thread(seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let world = runtime.expect("a runtime without input and output").block_on(async {
        let world = World::new(Plan::new(seed, flaw));
        live(&world).await;
        world
    });
    let journal = std::mem::take(&mut *world.journal());
    WorldReport {
        trace: journal.trace,
        violations: journal.violations,
        calls: journal.calls,
        requests: journal.requests,
        holds: journal.beliefs.len() as u64,
    }
}

/// Runs a world from beginning to end, and judges it.
async fn live(world: &Arc<World>) {
    world.note(format_args!("{:?}", world.plan));
    let clock = MachineClock::new(1.0, world.plan.server_steps.clone());
    let server = Server::new(world.clone(), Arc::new(clock));
    let machines = world.plan.machines.iter().enumerate();
    let hosts: Arc<Vec<Host>> =
        Arc::new(machines.map(|(number, machine)| host(&server, number, machine)).collect());
    let registers = Arc::default();
    let (mut tasks, plan) = (Vec::new(), &world.plan);
    let watches = plan.specialty == Specialty::Observed;
    let mut lasting = plan.machines.iter().enumerate().filter(|(_, each)| each.dies_at.is_none());
    let observer = lasting.next().filter(|_| watches);
    let observer = observer.map(|(number, machine)| host(&server, number, machine).locks);
    let observer = observer.map(|locks| tokio::spawn(observer::observe(world.clone(), locks)));
    for (machine, Machine { dies_at, tasks: scripts, .. }) in plan.machines.iter().enumerate() {
        for (task, steps) in scripts.iter().enumerate() {
            let (world, server) = (world.clone(), server.clone());
            let (hosts, registers) = (hosts.clone(), Arc::clone(&registers));
            let worker = Worker { world, server, hosts, registers, machine, task };
            tasks.push(spawn(worker, steps.clone(), *dies_at));
        }
    }
    let healed = world.instant(plan.healed_at());
    let is_live = timeout_at(healed + PATIENCE, join_all(&mut tasks)).await.is_ok();
    if !is_live {
        world.accuse("L1", "somebody waits long after all is well again");
        tasks.iter().for_each(JoinHandle::abort);
    }
    sleep_until(healed).await;
    end::shut_down(world, &hosts).await;
    if let Some(observer) = observer {
        observer.abort();
        end::judge_observer(world, &server);
    }
    end::judge_leftovers(world, &server).await;
    registers.iter().for_each(|register| register.judge(world));
    checks::judge(world);
}

fn host(server: &Arc<Server>, number: usize, machine: &Machine) -> Host {
    let link = Link::new(server.world.clone(), number);
    let world = &server.world;
    let sleep = world.has(Flaw::SleepUnnoticed).then_some((Duration::from_secs(1), 10_000));
    let clock = Arc::new(MachineClock::new(machine.rate, sleep.into_iter().collect()));
    let options = ClientOptions::new().clock(clock.clone());
    let patience = if world.has(Flaw::PatientClient) { 4 } else { 1 };
    let options = options.request_timeout(machine.request_timeout * patience);
    let locks = LockClient::with_options(Remote::new(link, server.clone()), options);
    Host { locks, clock, request_timeout: machine.request_timeout, me: Reentrance::new() }
}

fn spawn(
    worker: Worker,
    steps: Vec<crate::script::Step>,
    dies_at: Option<Duration>,
) -> JoinHandle<()> {
    let end = dies_at.unwrap_or(Duration::from_secs(3600));
    tokio::spawn(async move {
        // A machine that dies leaves nothing behind, and is not judged.
        let _ = timeout(end, Box::pin(worker.run(steps))).await;
    })
}
