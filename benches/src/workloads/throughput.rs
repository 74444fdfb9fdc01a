//! Many tasks of one client, each with its own lock.

use super::cycles;
use crate::client::{Result, fresh_name};
use crate::contender::Contender;
use crate::cpu;
use crate::figures::{CPU, CYCLES, Case, SERVER_CPU};
use crate::round::Round;

pub(crate) const NAME: &str = "throughput";

pub(crate) const TASKS: usize = 64;

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    for contender in round.with_floor() {
        let worked = work(round, contender).await;
        round.bear(NAME, contender, worked);
    }
    Ok(())
}

async fn work(round: &mut Round<'_>, contender: Contender) -> Result<()> {
    let (span, case) = (round.effort.span, Case { name: NAME, workers: TASKS });
    let mut client = round.client(contender).await?;
    let names = (0..TASKS).map(|_| fresh_name("own"));
    let tasks = cycles::tasks(&*client, names);
    let store = round.store_of(contender);
    let (requests, cpu, server) = (store.requests().await?, cpu::own(), store.cpu()?);
    let cycles: u64 = cycles::count(tasks, span).await?.into_iter().sum();
    let (cpu, by) = (cpu::own() - cpu, cycles.max(1) as f64);
    let server = store.cpu()?.zip(server).map(|(now, then)| now - then);
    let requests = store.requests().await?.zip(requests).map(|(now, then)| now - then);
    client.close().await;
    round.note(case, contender.name, CYCLES, cycles as f64 / span.as_secs_f64());
    round.note(case, contender.name, CPU, cpu.as_secs_f64() * 1e6 / by);
    let server = server.map(|server| server.as_secs_f64() * 1e6 / by);
    round.note(case, contender.name, SERVER_CPU, server);
    round.note_requests(case, contender, requests.map(|requests| requests as f64 / by));
    Ok(())
}
