//! A lock that nobody else wants, by one client.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::backend::Backend;
use crate::client::{Client, Result, fresh_name};
use crate::figures::{Case, P50, P99};
use crate::round::Round;
use crate::times::Times;

pub(crate) const IN_A_LOOP: &str = "uncontended";
pub(crate) const IN_A_TASK: &str = "uncontended, in a task";
pub(crate) const AFTER_A_PAUSE: &str = "uncontended, after a pause";

/// What a client has ready for a hot lock may be gone by then.
const PAUSE: Duration = Duration::from_secs(2);

/// One contender at work.
struct Worker {
    who: &'static str,
    name: String,
    client: Box<dyn Client>,
    times: Times,
}

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    // What the main task asks goes by another thread, and comes back by it. A service asks from tasks.
    let (workers, end) = starting(round).await?;
    note(round, IN_A_LOOP, take_turns(workers, end).await?).await;
    let (workers, end) = starting(round).await?;
    note(round, IN_A_TASK, tokio::spawn(take_turns(workers, end)).await??).await;
    match round.backend {
        Backend::Etcd => after_a_pause(round).await,
        _ => Ok(()),
    }
}

/// Those that take turns, and until when.
async fn starting(round: &Round<'_>) -> Result<(Vec<Worker>, Instant)> {
    let workers = workers(round).await?;
    let span = round.effort.span * workers.len() as u32;
    Ok((workers, Instant::now() + span))
}

async fn take_turns(mut workers: Vec<Worker>, end: Instant) -> Result<Vec<Worker>> {
    while Instant::now() < end {
        for worker in &mut workers {
            worker.cycle().await?;
        }
    }
    Ok(workers)
}

/// A lock that is taken every few seconds.
async fn after_a_pause(round: &mut Round<'_>) -> Result<()> {
    let mut workers = workers(round).await?;
    for _ in 0..round.effort.after_a_pause {
        sleep(PAUSE).await;
        for worker in &mut workers {
            worker.cycle().await?;
        }
    }
    note(round, AFTER_A_PAUSE, workers).await;
    Ok(())
}

/// One of each contender.
async fn workers(round: &Round<'_>) -> Result<Vec<Worker>> {
    let mut workers = Vec::new();
    for contender in round.with_floor() {
        let client = round.client(contender).await?;
        let name = fresh_name("alone");
        workers.push(Worker { who: contender.name, name, client, times: Times::new()? });
    }
    Ok(workers)
}

impl Worker {
    async fn cycle(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.client.acquire(&self.name).await?;
        self.client.release(&self.name).await?;
        self.times.note(begun.elapsed())
    }
}

async fn note(round: &mut Round<'_>, name: &'static str, workers: Vec<Worker>) {
    let case = Case { name, workers: 1 };
    for Worker { who, times, mut client, .. } in workers {
        client.close().await;
        round.note(case, who, P50, times.quantile(0.5));
        round.note(case, who, P99, times.quantile(0.99));
    }
}
