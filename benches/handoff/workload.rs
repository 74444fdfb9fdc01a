//! What is done with the locks, and what is measured of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::client::{Client, Peer, Result};
use crate::report::Round;
use crate::system::System;
use crate::times::{Times, micros};

/// How long a lock is held that changes hands.
const HOLD: Duration = Duration::from_millis(1);

/// How long to wait until another worker has the lock. Peers that poll need a while.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// One task that acquires and releases locks that nobody else wants: each peer in turn, so that all
/// see the same machine.
pub(crate) async fn alone(system: &dyn System, span: Duration) -> Result<Vec<Round>> {
    let mut peers = vec![system.two_writes()];
    peers.extend(system.peers());
    let mut clients = try_join_all(peers.iter().map(|peer| client(*peer, system))).await?;
    let mut times = vec![Times::new(3)?; peers.len()];
    let (end, run) = (Instant::now() + span * 2, rand::random::<u64>());
    while Instant::now() < end {
        for ((client, times), peer) in clients.iter_mut().zip(&mut times).zip(&peers) {
            let name = format!("alone:{run}:{}", peer.name);
            let begun = Instant::now();
            client.acquire(&name).await?;
            client.release(&name).await?;
            times.record(micros(begun))?;
        }
    }
    for client in &mut clients {
        client.clear_up().await?;
    }
    Ok(peers.iter().zip(times).map(|(peer, times)| Round::new(peer.name, times)).collect())
}

/// Workers that take turns, for each peer after the other, and the least that a turn could cost.
///
/// Every worker is a client of its own, as if on a host of its own. It holds the lock for 1 ms, and
/// after a release stays away until another has been in: each acquisition changes hands. Measured is
/// the time from the call of release to the next holder's return.
pub(crate) async fn hand_overs(
    system: &dyn System,
    workers: usize,
    span: Duration,
) -> Result<Vec<Round>> {
    let mut rounds = vec![Round::new(system.wake_up(), system.wake_ups().await?)];
    for peer in system.peers() {
        rounds.push(take_turns(system, *peer, workers, span).await?);
    }
    Ok(rounds)
}

/// What the workers of one round share. Times are in µs since the round began.
struct Track {
    name: String,
    epoch: Instant,
    end: Instant,
    released: AtomicU64,
    inside: AtomicUsize,
    entries: watch::Sender<u64>,
}

async fn take_turns(
    system: &dyn System,
    peer: Peer,
    workers: usize,
    span: Duration,
) -> Result<Round> {
    let clients = try_join_all((0..workers).map(|_| client(peer, system))).await?;
    let commands_before = system.commands().await?;
    let epoch = Instant::now();
    let track = Arc::new(Track {
        name: format!("hand-off:{}", rand::random::<u64>()),
        epoch,
        end: epoch + span,
        released: AtomicU64::new(0),
        inside: AtomicUsize::new(0),
        entries: watch::Sender::new(0),
    });
    let tasks = clients.into_iter().map(|client| tokio::spawn(work(client, track.clone())));
    let (mut times, mut entries) = (Times::new(3)?, Vec::new());
    for worked in join_all(tasks).await {
        let (gaps, count) = worked??;
        times.add(gaps)?;
        entries.push(count);
    }
    let commands = system.commands().await?.zip(commands_before).map(|(now, then)| now - then);
    Ok(Round::of_turns(peer.name, times, &entries, commands))
}

/// Takes turns until the end; returns for how long the lock was free before each, and how many.
async fn work(mut client: Box<dyn Client>, track: Arc<Track>) -> Result<(Times, u64)> {
    let (mut gaps, mut count) = (Times::new(3)?, 0);
    let mut entries = track.entries.subscribe();
    while Instant::now() < track.end {
        let left = track.end.saturating_duration_since(Instant::now());
        let Ok(acquired) = timeout(left + MAX_WAIT, client.acquire(&track.name)).await else {
            break;
        };
        let (_, now) = (acquired?, micros(track.epoch));
        assert_eq!(track.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        match track.released.load(Ordering::SeqCst) {
            0 => {}
            released => gaps.record(now.saturating_sub(released).max(1))?,
        }
        count += 1;
        let mut mine = 0;
        track.entries.send_modify(|entries| {
            *entries += 1;
            mine = *entries;
        });
        sleep(HOLD).await;
        track.inside.fetch_sub(1, Ordering::SeqCst);
        track.released.store(micros(track.epoch), Ordering::SeqCst);
        client.release(&track.name).await?;
        let _ = timeout(MAX_WAIT, entries.wait_for(|entries| *entries > mine)).await;
    }
    Ok((gaps, count))
}

async fn client(peer: Peer, system: &dyn System) -> Result<Box<dyn Client>> {
    (peer.client)(system.url().to_owned()).await
}
