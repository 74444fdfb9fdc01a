//! One instance leads, and runs the background job; each can say who it is.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use leasehold::file::FileFence;
use leasehold::{Election, FencingToken, LockError, LockRequest};
use tokio::time::{Instant, sleep};

use crate::crew::{Crew, Failure, served};
use crate::instance::{Instance, Refusal, TTL};

/// How often the job does something, and how often the story looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Leads whenever it is elected, until the client of the locks shuts down.
pub(crate) async fn lead(instance: Arc<Instance>) -> Result<(), Refusal> {
    loop {
        match election(&instance).campaign(instance.label()).await {
            Ok(leadership) => {
                // Dropped when the leadership is lost; then this one is a candidate again.
                if let Ok(refused) = leadership.run(index(&instance, leadership.term())).await {
                    refused?;
                }
            }
            Err(LockError::Closed { .. }) => return Ok(()),
            Err(error) if error.is_transient() => sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// `GET /leader`
pub(crate) async fn show(State(instance): State<Arc<Instance>>) -> Result<String, Refusal> {
    let leader = election(&instance).leader().await?;
    Ok(leader.map_or_else(String::new, |leader| format!("{} {}", leader.label, leader.term)))
}

fn election(instance: &Instance) -> Election {
    instance.locks.election(LockRequest::new(instance.name("indexer")).ttl(TTL))
}

/// The job of the leader. The term goes along with each write: one that led before, and does not know
/// yet that it is over, changes nothing.
async fn index(instance: &Instance, term: FencingToken) -> Result<(), Refusal> {
    let fence = FileFence::open(instance.file("index.fence"))?;
    loop {
        match fence.write(term, instance.file("index"), instance.label().as_bytes()).await {
            // Another leads already.
            Err(error) if error.is_stale() => return Ok(()),
            written => written?,
        }
        sleep(PAUSE).await;
    }
}

/// The leader is killed, and another leads.
pub(crate) async fn act(crew: &mut Crew) -> Result<(), Failure> {
    let first = elected(crew, 0, 5 * TTL).await?;
    for host in &crew.instances {
        if parsed(&served(host.get("/leader").await?)?).as_ref() != Some(&first) {
            return Err("the instances do not agree on who leads".into());
        }
    }
    crew.kill(&first.0).await?;
    let killed = Instant::now();
    // The rest of the TTL, and a second at the most.
    let next = elected(crew, first.1, TTL + Duration::from_secs(1)).await?;
    println!("leader:    {} leads in term {}, and is killed;", first.0, first.1);
    println!(
        "           {} ms later {} leads in term {}",
        killed.elapsed().as_millis(),
        next.0,
        next.1
    );
    Ok(())
}

/// Waits until somebody leads in a term greater than `term`.
async fn elected(crew: &Crew, term: u64, within: Duration) -> Result<(String, u64), Failure> {
    let until = Instant::now() + within;
    while Instant::now() < until {
        match leader(crew).await? {
            Some(leader) if leader.1 > term => return Ok(leader),
            _ => sleep(PAUSE).await,
        }
    }
    Err(format!("nobody leads after {within:?}").into())
}

/// Who leads, as an instance says it: label and term.
pub(crate) async fn leader(crew: &Crew) -> Result<Option<(String, u64)>, Failure> {
    Ok(parsed(&served(crew.for_request(0).get("/leader").await?)?))
}

fn parsed(text: &str) -> Option<(String, u64)> {
    let (label, term) = text.split_once(' ')?;
    Some((label.to_owned(), term.parse().ok()?))
}
