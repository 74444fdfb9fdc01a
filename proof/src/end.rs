//! The end of a world: all troubles are over, everything is released, and nothing is left.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Holder, LockClient, LockName};
use tokio::time::sleep;

use crate::script::NAMES;
use crate::server::Server;
use crate::worker::Host;
use crate::world::World;

/// Longest shutdown while every request is answered: the pause between two tries, and a round trip.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// All messages in flight arrive within this span.
const LATEST: Duration = Duration::from_secs(10);

/// Shuts down all living clients.
pub(crate) async fn shut_down(world: &World, hosts: &[Host]) {
    for (number, host) in hosts.iter().enumerate() {
        if world.plan.machines[number].dies_at.is_some() {
            continue;
        }
        let began = world.now();
        host.locks.shutdown().await;
        let took = world.now() - began;
        if took > SHUTDOWN {
            world.accuse("R1", format_args!("the shutdown of m{number} took {took:?}"));
        }
    }
    sleep(LATEST).await;
}

/// C40: the last change is never missed.
pub(crate) fn judge_observer(world: &World, server: &Arc<Server>) {
    let election = LockName::new("election").expect("a name");
    let leads = server.state(&election).holders.first().and_then(|holder| holder.token);
    let shown = world.journal().shown;
    if shown != Some(leads) {
        world.accuse("C40", format_args!("{leads:?} leads, and {shown:?} was shown last"));
    }
}

/// R1, L1: in the end nobody holds a lock, and each can be acquired.
pub(crate) async fn judge_leftovers(world: &World, server: &Arc<Server>) {
    for name in NAMES {
        let lock = LockName::new(name).expect("a name");
        let holders = server.state(&lock).holders;
        match holders.iter().find(|holder| !is_explained(world, name, holder)) {
            Some(holder) => world.accuse("R1", format_args!("{name} is held by {holder:?}")),
            None if holders.is_empty() => {
                let free = LockClient::new(server.memory.clone()).try_acquire(name).await;
                if !free.as_ref().is_ok_and(Option::is_some) {
                    world.accuse("L1", format_args!("{name} cannot be taken: {free:?}"));
                }
            }
            None => {}
        }
    }
}

/// Returns true for the hold of a dead machine, of a lease in transit, and of a run that keeps others out.
fn is_explained(world: &World, name: &str, holder: &Holder) -> bool {
    let journal = world.journal();
    let machines = world.plan.machines.iter().enumerate();
    let mut dead = machines.filter(|(_, machine)| machine.dies_at.is_some());
    let is_of_dead =
        dead.any(|(number, _)| holder.label.as_str().starts_with(&format!("m{number}t")));
    let keeps_out = name == "once" && journal.runs.iter().any(|run| run.at_least.is_some());
    is_of_dead || keeps_out || journal.abandoned.contains(name)
}
