//! A name that is acquired and released very often: its cost must stay the same.

use std::time::Instant;

use crate::client::{Result, fresh_name};
use crate::contender::Contender;
use crate::figures::{Case, LAST_BY_FIRST, P50};
use crate::round::Round;
use crate::times::Times;

pub(crate) const NAME: &str = "age";
pub(crate) const BESIDE_A_SNAPSHOT: &str = "age, beside an open snapshot";

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    for contender in round.ours() {
        live(round, NAME, contender).await?;
        let snapshot = round.store.snapshot().await?;
        if snapshot.is_some() {
            live(round, BESIDE_A_SNAPSHOT, contender).await?;
        }
    }
    Ok(())
}

async fn live(round: &mut Round<'_>, name: &'static str, contender: Contender) -> Result<()> {
    let (cycles, lock) = (round.effort.cycles, fresh_name("old"));
    let mut client = round.client(contender).await?;
    let (mut first, mut last) = (Times::new()?, Times::new()?);
    for cycle in 0..cycles {
        let begun = Instant::now();
        client.acquire(&lock).await?;
        client.release(&lock).await?;
        match cycle {
            early if early < cycles / 10 => first.note(begun.elapsed())?,
            late if late >= cycles - cycles / 10 => last.note(begun.elapsed())?,
            _ => {}
        }
    }
    client.close().await;
    let case = Case { name, workers: cycles };
    let (first, last) = (first.quantile(0.5), last.quantile(0.5));
    round.note(case, contender.name, P50, last);
    round.note(case, contender.name, LAST_BY_FIRST, last / first);
    Ok(())
}
