//! A run from its start to the report.

use std::sync::Arc;

use tokio::sync::watch;

use super::crew::{Crew, STOP};
use super::injector::{strike_store, strike_workers};
use super::journal::Journal;
use super::kept;
use super::leftovers::{leftovers, until_free};
use super::note::{Event, Run};
use super::plan::Plan;
use super::report::Report;
use super::store::Store;
use super::usage::{self, Usage};
use super::worker::{Task, Worker, client, note_stalls};
use crate::process::child;
use crate::process::new_folder;

/// Plays the role of a worker in the `child_role` of the test binary, until the run is over.
///
/// # Panics
/// In a process that [`run`] has not started.
pub async fn play<S: Store>() {
    let task = Task::of_environment();
    let worker = Worker::open::<S>(&task).await;
    for round in 0.. {
        let (stop, stopped) = watch::channel(false);
        let listen = async {
            let told = child::hear().await;
            stop.send_replace(true);
            told
        };
        let ((), told) = tokio::join!(worker.work(task.seed.wrapping_add(round), stopped), listen);
        if told == STOP {
            break;
        }
        child::say("resting");
        child::hear().await;
        child::say(&Usage::of_this_process().to_string());
        child::hear().await;
    }
    worker.locks.shutdown().await;
    child::say("done");
}

/// Runs workers under the faults of the plan, and judges their histories.
///
/// # Panics
/// If the store cannot be started, or a worker ends too early.
pub async fn run<S: Store>(plan: &Plan) -> Report {
    // Boxed, since it is large.
    Box::pin(run_to_end::<S>(plan)).await
}

async fn run_to_end<S: Store>(plan: &Plan) -> Report {
    let folder = new_folder();
    let mut store = S::start(folder.path()).await;
    let journal = Arc::new(Journal::open(folder.path(), "run"));
    journal.note(Event::Run(head::<S>(plan)));
    // The networks run in this process.
    note_stalls(&journal);
    let operator = client(S::connect(&store.url(None)).await.expect("a connection"));
    let mut crew = Crew::start(&store, plan, folder.path()).await;
    let (mut violations, mut rests) = (Vec::new(), Vec::new());
    for round in plan.rounds() {
        tokio::join!(
            strike_workers::<S>(&mut crew, &round, &journal),
            strike_store(&mut store, &operator, &round, &journal),
            tokio::time::sleep(round.span),
        );
        crew.heal();
        if plan.soaks && S::IN_PROCESSES {
            crew.rest().await;
            store.settle();
            violations.extend(until_free::<S>(&operator).await);
            rests.push(crew.measure(store.records().await).await);
        }
    }
    crew.stop().await;
    store.settle();
    violations.extend(leftovers::<S>(&operator, &store.url(None), folder.path(), &journal).await);
    usage::forgotten(&store, &mut rests).await;
    violations.extend(usage::growth(&rests));
    let notes = kept::gathered(folder.path());
    if let Some(kept) = &plan.keep {
        kept::keep(kept, &notes).expect("the history can be kept");
    }
    Report::of(&notes, violations).with(&rests).kept_in(folder)
}

/// Returns the head of the history. After a fault that loses holds, two clients may believe at most until the deadline of
/// the first holder.
fn head<S: Store>(plan: &Plan) -> Run {
    Run {
        store: S::NAME.to_owned(),
        seed: plan.seed,
        workers: plan.workers,
        seconds: plan.span.as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        forgets_for: (S::TTL * 4).as_nanos() as u64,
    }
}
