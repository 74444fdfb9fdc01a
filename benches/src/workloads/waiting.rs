//! Very many waiters for one lock: the cost while nothing happens.

use std::slice;
use std::sync::{Arc, Once};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use leasehold::{LockClient, LockError, LockGuard, LockRequest};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::backend::Backend;
use crate::client::{Result, fresh_name};
use crate::contender::OURS;
use crate::cpu;
use crate::effort::Effort;
use crate::figures::{CLIENT_CORES, Case, LOG_LINES, REQUESTS_PER_S, SERVER_CORES, SESSIONS};
use crate::round::Round;

pub(crate) const NAME: &str = "waiting";

/// Holds of one client, for each of which a task of another waits.
pub(crate) const IDLE: &str = "idle";

/// Number of holds, and of waiters, of the idle clients.
pub(crate) const IDLE_HOLDS: usize = 50;

/// Span in which the CPU is measured.
const LOOK: Duration = Duration::from_secs(5);

/// Longest time until all clients wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of clients that connect at once.
const AT_ONCE: usize = 4;

/// Number of clients that begin to wait at once.
const COME_AT_ONCE: usize = 20;

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    let (clients, tasks) = shape(round.backend, round.effort);
    let case = Case { name: NAME, workers: clients * tasks };
    let (url, name) = (round.store.url(), fresh_name("waited-for"));
    let holder = leasehold::connect(&url).await?;
    let held = holder.acquire(LockRequest::new(&*name)).await?;
    let clients = connect(&url, clients).await?;
    let waiting = wait(&clients, tasks, &name).await?;
    look(round, case).await?;
    drop(waiting);
    join_all(clients.iter().map(LockClient::shutdown)).await;
    Ok(held.release().await?)
}

/// Measures 50 holds and 50 waiters while nothing happens.
pub(crate) async fn idle(round: &mut Round<'_>) -> Result<()> {
    let url = round.store.url();
    let (holder, waiter) = (leasehold::connect(&url).await?, leasehold::connect(&url).await?);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in (0..IDLE_HOLDS).map(|_| fresh_name("idle")) {
        held.push(holder.acquire(LockRequest::new(&*name)).await?);
        waiting.push(wait(slice::from_ref(&waiter), 1, &name).await?);
    }
    look(round, Case { name: IDLE, workers: IDLE_HOLDS }).await?;
    drop(waiting);
    waiter.shutdown().await;
    drop(held);
    holder.shutdown().await;
    Ok(())
}

/// Returns the number of waiters.
pub(crate) fn count(backend: Backend, effort: Effort) -> usize {
    let (clients, tasks) = shape(backend, effort);
    clients * tasks
}

/// Returns the number of clients, and of tasks of each. The work of etcd grows with the number of clients, and
/// Postgres has sessions for each.
fn shape(backend: Backend, effort: Effort) -> (usize, usize) {
    match backend {
        Backend::Etcd => (1_000 / effort.fewer_waiters, 1),
        Backend::Postgres => (100 / effort.fewer_waiters, 10),
        _ => (8, 1_250 / effort.fewer_waiters),
    }
}

pub(super) async fn connect(
    url: &str,
    count: usize,
) -> std::result::Result<Vec<LockClient>, LockError> {
    let connecting = (0..count).map(|_| leasehold::connect(url));
    stream::iter(connecting).buffer_unordered(AT_ONCE).try_collect().await
}

type Waiters = JoinSet<std::result::Result<LockGuard, LockError>>;

/// Starts tasks of each client that wait for the lock. The first task of a client waits on behalf of all its
/// tasks (C26), so it is enough that each client has been told of the holder. Clients come in groups, since the
/// first request of each costs the server a commit.
async fn wait(clients: &[LockClient], tasks: usize, name: &str) -> Result<Waiters> {
    let (mut waiters, told) = (JoinSet::new(), Arc::new(Semaphore::new(0)));
    for some in clients.chunks(COME_AT_ONCE) {
        for client in some {
            let first = Arc::new(Once::new());
            for _ in 0..tasks {
                let (client, told, first) = (client.clone(), told.clone(), first.clone());
                let request = LockRequest::new(name)
                    .on_wait(move |_| first.call_once(|| told.add_permits(1)));
                waiters.spawn(async move { client.acquire(request).await });
            }
        }
        let some = u32::try_from(some.len())?;
        tokio::select! {
            told = timeout(PATIENCE, told.acquire_many(some)) => told??.forget(),
            Some(ended) = waiters.join_next() => {
                drop(ended??);
                return Err("a waiter got the lock".into());
            }
        }
    }
    Ok(waiters)
}

async fn look(round: &mut Round<'_>, case: Case) -> Result<()> {
    let (lines, requests) = (round.store.log_lines(), round.store.requests().await?);
    let before = (cpu::own(), round.store.cpu()?);
    sleep(LOOK).await;
    let after = (cpu::own(), round.store.cpu()?);
    let cores = |used: Duration| used.as_secs_f64() / LOOK.as_secs_f64();
    round.note(case, OURS, CLIENT_CORES, cores(after.0 - before.0));
    let of_servers = after.1.zip(before.1).map(|(after, before)| cores(after - before));
    round.note(case, OURS, SERVER_CORES, of_servers);
    let a_second = |count: u64| count as f64 / LOOK.as_secs_f64();
    let requests =
        round.store.requests().await?.zip(requests).map(|(after, before)| after - before);
    round.note(case, OURS, REQUESTS_PER_S, requests.map(a_second));
    round.note(case, OURS, SESSIONS, round.store.sessions().await?.map(|count| count as f64));
    let lines = round.store.log_lines().zip(lines).map(|(after, before)| after - before);
    round.note(case, OURS, LOG_LINES, lines.map(|lines| a_second(lines as u64)));
    Ok(())
}
