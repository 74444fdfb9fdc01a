//! A job that all instances are told to run, and one runs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use futures_util::future::try_join_all;
use leasehold::OnceOutcome;
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;

use crate::crew::{Crew, Failure, served};
use crate::instance::{Instance, Refusal};

/// How long the job takes, and how long it is remembered that it was done.
const WORK: Duration = Duration::from_millis(300);
const REMEMBER: Duration = Duration::from_secs(60 * 60);

/// `POST /nightly/{night}`
pub(crate) async fn run(
    State(instance): State<Arc<Instance>>,
    Path(night): Path<String>,
) -> Result<&'static str, Refusal> {
    let job = instance.locks.once(instance.name("nightly"));
    let job = job.occurrence(instance.name(&night)).remember(REMEMBER);
    // Work that fails is not recorded, and the next one that is told runs it.
    match job.try_run(async |_held| bill(&instance, &night).await).await? {
        OnceOutcome::Ran(finished) => {
            finished.value?;
            finished.hold?;
            Ok("ran")
        }
        OnceOutcome::Skipped(_) => Ok("skipped"),
        OnceOutcome::Done(_) => Ok("done"),
    }
}

/// The job: it takes its time.
async fn bill(instance: &Instance, night: &str) -> Result<(), Refusal> {
    let mut log = OpenOptions::new().create(true).append(true).open(instance.file("bills")).await?;
    tokio::time::sleep(WORK).await;
    log.write_all(format!("{night}\n").as_bytes()).await?;
    Ok(log.flush().await?)
}

/// All are told at once, and once more when it is done.
pub(crate) async fn act(crew: &Crew) -> Result<(), Failure> {
    let (first, later) = (answers(crew).await?, answers(crew).await?);
    let count = |answer: &str| first.iter().filter(|said| *said == answer).count();
    let (ran, skipped, done) = (count("ran"), count("skipped"), count("done"));
    println!("nightly:   {} told at once: {ran} ran it, {skipped} skipped it,", first.len());
    println!("           {done} saw that it was done; told later, all said: {}", later[0]);
    match ran == 1 && later.iter().all(|said| said == "done") {
        true => Ok(()),
        false => Err(format!("the job did not run once: {first:?}, then {later:?}").into()),
    }
}

async fn answers(crew: &Crew) -> Result<Vec<String>, Failure> {
    let told = crew.instances.iter().map(async |host| served(host.post("/nightly/monday").await?));
    try_join_all(told).await
}
