//! One client and a lock that nobody else wants.

use std::time::{Duration, Instant};

use clap::Args;
use tokio::time::sleep;

use crate::backend::Backend;
use crate::child::{self, Child};
use crate::client::{Client, Result, fresh_name};
use crate::contender::Contender;
use crate::figures::{Case, P50, P99};
use crate::round::Round;
use crate::times::Times;

pub(crate) const IN_A_LOOP: &str = "uncontended";
pub(crate) const IN_A_TASK: &str = "uncontended, in a task";
pub(crate) const AFTER_A_PAUSE: &str = "uncontended, after a pause";

/// Time of a contender's turn before the next one's.
const TURN: Duration = Duration::from_millis(50);

/// Pause after which a client's preparations for a hot lock may have ended.
const PAUSE: Duration = Duration::from_secs(2);

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    // A request of the main task goes through another thread and back. A service sends requests from tasks.
    in_turns(round, IN_A_LOOP, false).await?;
    in_turns(round, IN_A_TASK, true).await?;
    match round.backend {
        Backend::Etcd => after_a_pause(round).await,
        _ => Ok(()),
    }
}

/// Runs each contender in its own process, as a real program has only one of them: in a shared process, another
/// contender would leave its threads and caches behind.
async fn in_turns(round: &mut Round<'_>, name: &'static str, in_a_task: bool) -> Result<()> {
    let mut loops = Vec::new();
    for contender in round.with_floor() {
        loops.push((contender.name, Loop::start(round, contender, in_a_task).await?));
    }
    for _ in 0..round.effort.span.as_millis().div_ceil(TURN.as_millis()) {
        for (_, of_contender) in &mut loops {
            of_contender.turn().await?;
        }
    }
    for (who, Loop { quantiles: [p50, p99], .. }) in loops {
        round.note(Case { name, workers: 1 }, who, P50, p50);
        round.note(Case { name, workers: 1 }, who, P99, p99);
    }
    Ok(())
}

/// A contender that runs in its own process.
struct Loop {
    child: Child,
    /// Quantiles of all its cycles so far.
    quantiles: [f64; 2],
}

impl Loop {
    async fn start(round: &Round<'_>, contender: Contender, in_a_task: bool) -> Result<Self> {
        let (backend, in_a_task) = (round.backend.name(), in_a_task.to_string());
        let url = round.store_of(contender).url();
        let args = ["turns", backend, contender.name, &url, &in_a_task];
        let mut child = Child::start(&args)?;
        child.line().await?;
        Ok(Self { child, quantiles: [0.0; 2] })
    }

    async fn turn(&mut self) -> Result<()> {
        self.child.go().await?;
        let line = self.child.line().await?;
        let (p50, p99) = line.split_once(' ').ok_or("two quantiles are told")?;
        self.quantiles = [p50.parse()?, p99.parse()?];
        Ok(())
    }
}

/// Arguments of such a process.
#[derive(Args)]
pub(crate) struct Turns {
    #[arg(value_enum)]
    backend: Backend,
    contender: String,
    url: String,
    #[arg(action = clap::ArgAction::Set)]
    in_a_task: bool,
}

impl Turns {
    pub(crate) async fn play(self) -> Result<()> {
        let mut contenders = self.backend.with_floor();
        let contender = contenders.find(|contender| contender.name == self.contender);
        let client = contender.ok_or("no such contender")?.client(&self.url).await?;
        let mut worker = Worker::new(client)?;
        let mut told = "ready".to_owned();
        // Runs until the parent ends it.
        while child::say_and_wait(&told).await.is_ok() {
            worker = match self.in_a_task {
                true => tokio::spawn(worker.turn()).await??,
                false => worker.turn().await?,
            };
            let times = &worker.times;
            told = format!("{} {}", times.quantile(0.5), times.quantile(0.99));
        }
        Ok(())
    }
}

/// Measures a lock that is acquired every few seconds.
async fn after_a_pause(round: &mut Round<'_>) -> Result<()> {
    let mut workers = Vec::new();
    for contender in round.with_floor() {
        workers.push((contender.name, Worker::new(round.client(contender).await?)?));
    }
    for _ in 0..round.effort.after_a_pause {
        sleep(PAUSE).await;
        for (_, worker) in &mut workers {
            worker.cycle().await?;
        }
    }
    for (who, Worker { times, mut client, .. }) in workers {
        client.close().await;
        round.note_times(Case { name: AFTER_A_PAUSE, workers: 1 }, who, &times);
    }
    Ok(())
}

/// One running contender.
struct Worker {
    name: String,
    client: Box<dyn Client>,
    times: Times,
}

impl Worker {
    fn new(client: Box<dyn Client>) -> Result<Self> {
        Ok(Self { name: fresh_name("alone"), client, times: Times::new()? })
    }

    async fn turn(mut self) -> Result<Self> {
        let end = Instant::now() + TURN;
        while Instant::now() < end {
            self.cycle().await?;
        }
        Ok(self)
    }

    async fn cycle(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.client.acquire(&self.name).await?;
        self.client.release(&self.name).await?;
        self.times.note(begun.elapsed())
    }
}
