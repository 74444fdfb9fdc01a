//! Clients that take turns.
//!
//! Each client is separate, as if on its own host. It holds the lock for 1 ms. After a release it stays away
//! until another client has held the lock, so that each acquisition changes hands. The measured time is from the
//! call of release until the next holder's acquire returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use tokio::sync::watch;
use tokio::time::{sleep, timeout, timeout_at};

use super::hot::slowest_by_fastest;
use crate::backend::Backend;
use crate::client::{Client, Result, fresh_name};
use crate::contender::Contender;
use crate::figures::{Case, FAIRNESS};
use crate::round::Round;
use crate::times::{Times, nanos_since};

pub(crate) const NAME: &str = "hand-off";

pub(crate) const CLIENTS: [usize; 4] = [2, 16, 64, 256];

/// Numbers of clients for the topologies: there are many contenders, some with ten connections per client.
const CLIENTS_OF_TOPOLOGIES: &[usize] = &[2, 16, 64];

/// Time for which a lock is held.
const HOLD: Duration = Duration::from_millis(1);

/// Longest wait until another client has the lock. Peers that poll need a while.
const AWAY: Duration = Duration::from_millis(500);

pub(crate) async fn run(round: &mut Round<'_>) -> Result<()> {
    for &clients in clients(round.backend) {
        wake_ups(round, clients).await?;
        for contender in round.contenders() {
            let turns = turns(round, *contender, clients).await;
            round.bear(NAME, *contender, turns);
        }
    }
    Ok(())
}

/// Returns the numbers of clients that take turns.
pub(crate) fn clients(backend: Backend) -> &'static [usize] {
    match backend {
        Backend::Topologies => CLIENTS_OF_TOPOLOGIES,
        _ => &CLIENTS,
    }
}

/// Measures the floor beside each number of clients, because the speed of a machine varies.
async fn wake_ups(round: &mut Round<'_>, clients: usize) -> Result<()> {
    let Some(mut wake_up) = round.store.wake_up().await? else {
        return Ok(());
    };
    let (mut times, end) = (Times::new()?, Instant::now() + round.effort.span);
    while Instant::now() < end {
        times.note(wake_up.once().await?)?;
        sleep(HOLD).await;
    }
    round.note_times(Case { name: NAME, workers: clients }, round.backend.wake_up(), &times);
    Ok(())
}

async fn turns(round: &mut Round<'_>, contender: Contender, clients: usize) -> Result<()> {
    let store = round.store_of(contender);
    let (name, mut workers) =
        (fresh_name("turns"), contender.clients(&store.url(), clients).await?);
    if contender.is_ours() {
        stand_in_line(&mut workers, &name).await?;
    }
    let requests = store.requests().await?;
    let span = round.effort.span.max(round.effort.each * u32::try_from(clients)?);
    let track = Arc::new(Track::new(name, span));
    let tasks = workers.into_iter().map(|client| tokio::spawn(track.clone().run(client)));
    let (mut times, mut turns) = (Times::new()?, Vec::new());
    let mut workers = Vec::new();
    for worked in try_join_all(tasks).await? {
        let (client, turn) = worked?;
        times.add(&turn.gaps)?;
        turns.push(turn.count);
        workers.push(client);
    }
    let requests = store.requests().await?.zip(requests).map(|(now, then)| now - then);
    join_all(workers.iter_mut().map(|client| client.close())).await;
    let case = Case { name: NAME, workers: clients };
    // With some peers the lock never changes hands.
    round.note_times(case, contender.name, &times);
    round.note(case, contender.name, FAIRNESS, slowest_by_fastest(&turns));
    let acquisitions = turns.iter().sum::<u64>().max(1) as f64;
    round.note_requests(case, contender, requests.map(|requests| requests as f64 / acquisitions));
    Ok(())
}

/// Lets all clients acquire the lock once, so that the preparations of a client's first wait are done before
/// requests are counted.
async fn stand_in_line(workers: &mut [Box<dyn Client>], name: &str) -> Result<()> {
    let once = workers.iter_mut().map(async |client| {
        client.acquire(name).await?;
        sleep(HOLD).await;
        client.release(name).await
    });
    try_join_all(once).await?;
    Ok(())
}

/// State that the workers share. Times are in ns since the track began.
struct Track {
    name: String,
    begun: Instant,
    end: Instant,
    /// Time of the last release, or 0.
    released: AtomicU64,
    inside: AtomicUsize,
    entries: watch::Sender<u64>,
}

/// Observations of one worker.
struct Turns {
    count: u64,
    /// Time for which the lock was free before each turn.
    gaps: Times,
}

impl Track {
    fn new(name: String, span: Duration) -> Self {
        let begun = Instant::now();
        Self {
            name,
            begun,
            end: begun + span,
            released: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            entries: watch::Sender::new(0),
        }
    }

    /// Takes turns until the end. The cost of closing the client is not measured.
    async fn run(self: Arc<Self>, mut client: Box<dyn Client>) -> Result<(Box<dyn Client>, Turns)> {
        let mut turns = Turns { count: 0, gaps: Times::new()? };
        let mut entries = self.entries.subscribe();
        while Instant::now() < self.end {
            let last = (self.end + AWAY).into();
            let Ok(acquired) = timeout_at(last, client.acquire(&self.name)).await else {
                break;
            };
            acquired?;
            let mine = self.enter(&mut turns)?;
            sleep(HOLD).await;
            self.leave();
            client.release(&self.name).await?;
            let _ = timeout(AWAY, entries.wait_for(|entries| *entries > mine)).await;
        }
        Ok((client, turns))
    }

    /// Returns the number of this entry among all entries.
    fn enter(&self, turns: &mut Turns) -> Result<u64> {
        let now = nanos_since(self.begun);
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        turns.count += 1;
        match self.released.load(Ordering::SeqCst) {
            0 => {}
            released => turns.gaps.note(Duration::from_nanos(now.saturating_sub(released)))?,
        }
        let mut mine = 0;
        self.entries.send_modify(|entries| {
            *entries += 1;
            mine = *entries;
        });
        Ok(mine)
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.released.store(nanos_since(self.begun), Ordering::SeqCst);
    }
}
