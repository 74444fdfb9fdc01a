//! A run from its start to the report.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::bounds;
use super::crew::Crew;
use super::history::History;
use super::injector::{strike_store, strike_workers};
use super::journal::Journal;
use super::leftovers::leftovers;
use super::overlaps;
use super::plan::Plan;
use super::report::Report;
use super::store::Store;
use super::tokens;
use super::updates;
use super::worker::{Task, client, note_stalls, work};
use crate::process::child;
use crate::process::new_folder;

/// Plays the role of a worker in the `child_role` of the test binary, until the run is over.
///
/// # Panics
/// In a process that [`run`] has not started.
pub async fn play<S: Store>() {
    let (stop, stopped) = watch::channel(false);
    let listen = async {
        child::hear().await;
        stop.send_replace(true);
    };
    tokio::join!(work::<S>(Task::of_environment(), stopped), listen);
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
    // The networks run in this process.
    note_stalls(&journal);
    let operator = client(S::connect(&store.url(None)).await.expect("a connection"));
    let mut crew = Crew::start(&store, plan, folder.path()).await;
    tokio::join!(
        strike_workers::<S>(&mut crew, plan, &journal),
        strike_store(&mut store, &operator, plan, &journal),
        tokio::time::sleep(plan.span),
    );
    crew.heal();
    crew.stop().await;
    let left = leftovers::<S>(&operator, &store.url(None), folder.path(), &journal).await;
    let history = History::read(folder.path());
    let mut violations = left;
    violations.extend(tokens::violations(&history));
    violations.extend(updates::violations(&history));
    violations.extend(bounds::violations(&history));
    let (broken, excused) = overlaps::violations(&history, forgets_for::<S>());
    violations.extend(broken);
    Report::new(S::NAME, plan, &history, violations, excused).kept_in(folder)
}

/// Returns the time after a fault that loses holds in which two clients may believe: until the first holder's
/// deadline, at the most.
fn forgets_for<S: Store>() -> Duration {
    S::TTL * 4
}
