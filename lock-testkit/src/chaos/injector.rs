//! Injects faults at moments that the seed chooses.

use std::time::Duration;

use lock_core::LockClient;
use tokio::time::{Instant, sleep};

use super::crew::Crew;
use super::fault::{EVICTED, Fault, KILLED, OF_LOCKS, OF_WORKERS, PAUSED, Victim};
use super::journal::Journal;
use super::network;
use super::note::Event;
use super::plan::Plan;
use super::rng::Rng;
use super::store::Store;
use super::worker::NAMES;
use crate::Mode;

/// Injects faults into the workers and their networks, one at a time, for the span of the plan.
pub(super) async fn strike_workers<S: Store>(crew: &mut Crew, plan: &Plan, journal: &Journal) {
    let has_network = crew.pick(&mut Rng::new(0, 0)).network.is_some();
    let of_networks = network::FAULTS.iter().filter(|_| has_network);
    let of_workers = OF_WORKERS.iter().filter(|_| S::IN_PROCESSES);
    let faults: Vec<Fault> =
        of_networks.chain(of_workers).copied().filter(|fault| plan.has(fault.name)).collect();
    let (mut rng, end) = (Rng::new(plan.seed, 1), Instant::now() + plan.span);
    while !faults.is_empty() && calm(&mut rng, plan, end).await {
        let (fault, seat, span) = (*rng.pick(&faults), crew.pick(&mut rng), span::<S>(&mut rng));
        let who = seat.who().to_owned();
        let [name, whom] = [fault.name, &who].map(str::to_owned);
        journal.note(Event::FaultBegins { fault: name.clone(), whom: whom.clone(), loses: false });
        match (fault.name, &seat.network) {
            (PAUSED, _) => {
                seat.pause();
                sleep(span).await;
                seat.go_on();
            }
            (KILLED, _) => seat.replace::<S>(&mut rng).await,
            (name, Some(proxy)) => {
                network::strike(proxy, name, &mut rng);
                sleep(span).await;
                proxy.set(Mode::Pass);
            }
            (name, None) => unreachable!("no network for {name}"),
        }
        journal.note(Event::FaultEnds { fault: name, whom });
    }
}

/// Injects faults into the store and its locks, one at a time, for the span of the plan.
pub(super) async fn strike_store<S: Store>(
    store: &mut S,
    operator: &LockClient,
    plan: &Plan,
    journal: &Journal,
) {
    let faults = store.faults().into_iter().chain(OF_LOCKS);
    let faults: Vec<Fault> = faults.filter(|fault| plan.has(fault.name)).collect();
    let (mut rng, end) = (Rng::new(plan.seed, 2), Instant::now() + plan.span);
    while !faults.is_empty() && calm(&mut rng, plan, end).await {
        let (fault, span) = (*rng.pick(&faults), span::<S>(&mut rng));
        if fault.loses && plan.fault.is_none() && !rng.one_in(4) {
            // These are rare: a violation that they excuse cannot show another fault.
            continue;
        }
        let loses = fault.loses && !plan.excuses_nothing;
        let victim = if fault.place == Victim::Lock { *rng.pick(&NAMES) } else { S::NAME };
        let [name, whom] = [fault.name, victim].map(str::to_owned);
        journal.note(Event::FaultBegins { fault: name.clone(), whom: whom.clone(), loses });
        match fault.name {
            // A stopped server has nothing to free.
            EVICTED => drop(operator.admin().evict(victim).await),
            name => store.strike(name, span).await,
        }
        journal.note(Event::FaultEnds { fault: name, whom });
    }
}

/// Injects no fault for a while, longer in a long run: most calls fail while a server is away. Returns true if there is
/// time for another fault.
async fn calm(rng: &mut Rng, plan: &Plan, end: Instant) -> bool {
    let longest = (plan.span / 10).clamp(Duration::from_millis(900), Duration::from_secs(8));
    sleep(rng.span(Duration::from_millis(50), longest)).await;
    Instant::now() < end
}

/// Returns the duration of a fault: shorter than the shortest TTL, or longer.
fn span<S: Store>(rng: &mut Rng) -> Duration {
    match rng.one_in(2) {
        true => rng.span(Duration::from_millis(30), S::TTL / 2),
        false => rng.span(S::TTL * 5 / 4, S::TTL * 3),
    }
}
