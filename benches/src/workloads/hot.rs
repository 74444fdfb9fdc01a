//! Many tasks on one lock: a flash sale.

use std::time::Duration;

use clap::Args;

use super::cycles;
use crate::backend::Backend;
use crate::child::{self, Child};
use crate::client::{Result, fresh_name};
use crate::contender::Contender;
use crate::figures::{CYCLES, Case, FAIRNESS};
use crate::round::Round;

pub(crate) const ONE_CLIENT: &str = "hot lock";
pub(crate) const PROCESSES: &str = "hot lock, 4 processes";

pub(crate) const TASKS: usize = 64;
const CHILDREN: usize = 4;

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    for contender in round.contenders() {
        let worked = one_client(round, *contender).await;
        round.bear(ONE_CLIENT, *contender, worked);
        if round.backend != Backend::Memory {
            let worked = processes(round, *contender).await;
            round.bear(PROCESSES, *contender, worked);
        }
    }
    Ok(())
}

async fn one_client(round: &mut Round<'_>, contender: Contender) -> Result<()> {
    let span = round.effort.span;
    let mut client = round.client(contender).await?;
    let names = std::iter::repeat_n(fresh_name("hot"), TASKS);
    let counts = cycles::count(cycles::tasks(&*client, names), span).await?;
    client.close().await;
    note(round, Case { name: ONE_CLIENT, workers: TASKS }, contender, &counts);
    Ok(())
}

/// Arguments of a child.
#[derive(Args)]
pub(crate) struct Share {
    #[arg(value_enum)]
    backend: Backend,
    contender: String,
    url: String,
    name: String,
    tasks: usize,
    millis: u64,
}

async fn processes(round: &mut Round<'_>, contender: Contender) -> Result<()> {
    let name = fresh_name("hot");
    let (tasks, millis) = (TASKS / CHILDREN, round.effort.span.as_millis());
    let (tasks, millis) = (tasks.to_string(), millis.to_string());
    let (backend, url) = (round.backend.name(), round.store.url());
    let mut children = Vec::new();
    for _ in 0..CHILDREN {
        let args = ["share", backend, contender.name, &url, &name, &tasks, &millis];
        let mut child = Child::start(&args)?;
        child.line().await?;
        children.push(child);
    }
    for child in &mut children {
        child.go().await?;
    }
    let mut counts = Vec::new();
    for child in &mut children {
        counts.push(child.line().await?.parse()?);
    }
    note(round, Case { name: PROCESSES, workers: TASKS }, contender, &counts);
    Ok(())
}

impl Share {
    pub(crate) async fn play(self) -> Result<()> {
        let contenders = self.backend.contenders();
        let contender = contenders.iter().find(|contender| contender.name == self.contender);
        let mut client = contender.ok_or("no such contender")?.client(&self.url).await?;
        let names = std::iter::repeat_n(self.name, self.tasks);
        let tasks = cycles::tasks(&*client, names);
        child::say_and_wait("ready").await?;
        let counts = cycles::count(tasks, Duration::from_millis(self.millis)).await?;
        println!("{}", counts.iter().sum::<u64>());
        client.close().await;
        Ok(())
    }
}

fn note(round: &mut Round<'_>, case: Case, contender: Contender, counts: &[u64]) {
    let cycles = counts.iter().sum::<u64>() as f64 / round.effort.span.as_secs_f64();
    round.note(case, contender.name, CYCLES, cycles);
    round.note(case, contender.name, FAIRNESS, slowest_by_fastest(counts));
}

/// Returns the turns of the slowest divided by the turns of the fastest.
pub(crate) fn slowest_by_fastest(counts: &[u64]) -> f64 {
    let (slowest, fastest) = (counts.iter().min(), counts.iter().max());
    *slowest.unwrap_or(&0) as f64 / (*fastest.unwrap_or(&0)).max(1) as f64
}
