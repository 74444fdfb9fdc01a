//! How long a lock on etcd is free between two holders, and what a cycle of acquire and release
//! costs: the project beside etcd's own Lock call and beside the floors, in one run.
//!
//! Hand-off: every worker is a client of its own, as if on a host of its own. It holds the lock for
//! 1 ms, and after a release stays away until another has been in: each acquisition changes hands.
//! Measured is the time from the call of release to the next holder's return. Rounds of the peers
//! and of the floors alternate; each figure is the median of its rounds.
//!
//! `cargo bench --features etcd --bench handoff_etcd [-- [--url URL] [--seconds N] [--rounds N]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use hdrhistogram::Histogram;
use leasehold::etcd::etcd_client::{self, LockOptions, WatchOptions};
use leasehold::{LockClient, LockGuard, LockRequest, OwnerId};
use test_support::EtcdServer;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TTL: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_millis(1);
const WORKERS: [usize; 3] = [2, 16, 64];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let options = Options::from_args();
    let server = if options.url.is_none() { Some(EtcdServer::start().await) } else { None };
    let url = options.url.clone().or(server.as_ref().map(EtcdServer::url)).unwrap_or_default();
    Box::pin(uncontended(&url, &options)).await?;
    println!(
        "\n{:24} {:>4} {:>9} {:>9} {:>7} {:>9}",
        "hand-off", "W", "p50 µs", "p99 µs", "× floor", "slow/fast"
    );
    for workers in WORKERS {
        let mut rounds: Vec<Vec<Round>> = PEERS.iter().map(|_| Vec::new()).collect();
        let mut floors = Vec::new();
        for _ in 0..options.rounds {
            floors.push(Box::pin(put_to_watch(&url)).await?);
            for (peer, rounds) in PEERS.iter().zip(&mut rounds) {
                rounds.push(round(*peer, &url, workers, options.span).await?);
            }
        }
        let floor = median(floors.iter().map(|times| quantile(times, 0.5)));
        let floor_p99 = median(floors.iter().map(|times| quantile(times, 0.99)));
        println!("{:24} {workers:>4} {floor:>9} {floor_p99:>9} {:>7.2}", "put to watch", 1.0);
        for (peer, rounds) in PEERS.iter().zip(&rounds) {
            report(peer.name(), workers, rounds, floor);
        }
    }
    Ok(())
}

struct Options {
    url: Option<String>,
    span: Duration,
    rounds: usize,
}

impl Options {
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let value = |name: &str| {
            let at = args.iter().position(|arg| arg == name)?;
            args.get(at + 1).cloned()
        };
        let number = |name: &str| value(name).and_then(|text| text.parse::<f64>().ok());
        Self {
            url: value("--url"),
            span: Duration::from_secs_f64(number("--seconds").unwrap_or(2.0)),
            rounds: number("--rounds").unwrap_or(3.0) as usize,
        }
    }
}

#[derive(Clone, Copy)]
enum Peer {
    Leasehold,
    LockCall,
}

const PEERS: [Peer; 2] = [Peer::Leasehold, Peer::LockCall];

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::LockCall => "etcd's Lock call",
        }
    }

    async fn client(self, url: &str) -> Result<Client, Error> {
        Ok(match self {
            Self::Leasehold => Client::Leasehold(leasehold::connect(url).await?),
            Self::LockCall => {
                let mut client = driver(url).await?;
                let lease = client.lease_grant(TTL.as_secs() as i64, None).await?.id();
                Client::LockCall(Box::new(client), lease)
            }
        })
    }
}

enum Client {
    Leasehold(LockClient),
    LockCall(Box<etcd_client::Client>, i64),
}

enum Held {
    Leasehold(LockGuard),
    Key(Vec<u8>),
}

impl Client {
    async fn acquire(&mut self, name: &str) -> Result<Held, Error> {
        match self {
            Self::Leasehold(client) => {
                Ok(Held::Leasehold(client.acquire(LockRequest::new(name).ttl(TTL)).await?))
            }
            Self::LockCall(client, lease) => {
                let options = LockOptions::new().with_lease(*lease);
                Ok(Held::Key(client.lock(name, Some(options)).await?.key().to_vec()))
            }
        }
    }

    async fn release(&mut self, held: Held) -> Result<(), Error> {
        match (self, held) {
            (_, Held::Leasehold(guard)) => guard.release().await.map(|_| ())?,
            (Self::LockCall(client, _), Held::Key(key)) => client.unlock(key).await.map(|_| ())?,
            (Self::Leasehold(_), Held::Key(_)) => return Err("a key of another peer".into()),
        }
        Ok(())
    }
}

/// The driver by itself, to the first member of the URL.
async fn driver(url: &str) -> Result<etcd_client::Client, Error> {
    let members = url.trim_start_matches("etcd://").trim_end_matches('/').split(',');
    let members: Vec<&str> = members.take(1).collect();
    Ok(etcd_client::Client::connect(members, None).await?)
}

/// One client, one task: acquire and release, beside a put and a delete.
async fn uncontended(url: &str, options: &Options) -> Result<(), Error> {
    let client = leasehold::connect(url).await?;
    let mut driver = driver(url).await?;
    let (mut floors, mut cycles) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (mut floor, mut cycle) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
        let end = Instant::now() + options.span;
        while Instant::now() < end {
            let begun = Instant::now();
            driver.put("floor", "value", None).await?;
            driver.delete("floor", None).await?;
            floor.record(begun.elapsed().as_micros() as u64)?;
            let begun = Instant::now();
            client.acquire(LockRequest::new("alone").ttl(TTL)).await?.release().await?;
            cycle.record(begun.elapsed().as_micros() as u64)?;
        }
        floors.push(floor);
        cycles.push(cycle);
    }
    println!("{:24} {:>9} {:>9} {:>7}", "uncontended", "p50 µs", "p99 µs", "× floor");
    let p50 = |times: &[Histogram<u64>]| median(times.iter().map(|times| quantile(times, 0.5)));
    let p99 = |times: &[Histogram<u64>]| median(times.iter().map(|times| quantile(times, 0.99)));
    for (name, times) in [("put and delete", &floors), ("leasehold", &cycles)] {
        let ratio = p50(times) / p50(&floors).max(1.0);
        println!("{name:24} {:>9} {:>9} {ratio:>7.2}", p50(times), p99(times));
    }
    Ok(())
}

struct Round {
    gaps: Histogram<u64>,
    fairness: f64,
}

/// What the workers of a round share. Times are in µs since the round began.
struct Track {
    epoch: Instant,
    end: Instant,
    name: String,
    released: AtomicU64,
    inside: AtomicUsize,
    entries: watch::Sender<u64>,
}

async fn round(peer: Peer, url: &str, workers: usize, span: Duration) -> Result<Round, Error> {
    let clients = try_join_all((0..workers).map(|_| peer.client(url))).await?;
    let epoch = Instant::now();
    let track = Arc::new(Track {
        epoch,
        end: epoch + span,
        name: format!("handoff-{}", OwnerId::random().expose()),
        released: AtomicU64::new(0),
        inside: AtomicUsize::new(0),
        entries: watch::Sender::new(0),
    });
    let tasks = clients.into_iter().map(|client| tokio::spawn(work(client, track.clone())));
    let (mut gaps, mut entries) = (Histogram::new(3)?, Vec::new());
    for worked in join_all(tasks).await {
        let (worker_gaps, count) = worked??;
        gaps.add(worker_gaps)?;
        entries.push(count);
    }
    let (slow, fast) = (entries.iter().min(), entries.iter().max());
    let fairness = *slow.unwrap_or(&0) as f64 / (*fast.unwrap_or(&1)).max(1) as f64;
    Ok(Round { gaps, fairness })
}

async fn work(mut client: Client, track: Arc<Track>) -> Result<(Histogram<u64>, u64), Error> {
    let (mut gaps, mut count) = (Histogram::new(3)?, 0);
    let mut entries = track.entries.subscribe();
    while Instant::now() < track.end {
        let patience = track.end.saturating_duration_since(Instant::now()) + HOLD * 500;
        let Ok(held) = timeout(patience, client.acquire(&track.name)).await else { break };
        let (held, now) = (held?, track.epoch.elapsed().as_micros() as u64);
        assert_eq!(track.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
        let released = track.released.load(Ordering::SeqCst);
        if released != 0 {
            gaps.record(now.saturating_sub(released).max(1))?;
        }
        count += 1;
        let mut mark = 0;
        track.entries.send_modify(|entries| {
            *entries += 1;
            mark = *entries;
        });
        sleep(HOLD).await;
        track.inside.fetch_sub(1, Ordering::SeqCst);
        track.released.store(track.epoch.elapsed().as_micros() as u64, Ordering::SeqCst);
        client.release(held).await?;
        let _ = timeout(HOLD * 500, entries.wait_for(|entries| *entries > mark)).await;
    }
    Ok((gaps, count))
}

/// The time from a put to another client's watch.
async fn put_to_watch(url: &str) -> Result<Histogram<u64>, Error> {
    let (mut writer, mut watcher) = (driver(url).await?, driver(url).await?);
    let mut events = watcher.watch("floor", Some(WatchOptions::new())).await?;
    events.message().await?;
    let mut times = Histogram::new(3)?;
    for _ in 0..500 {
        let sent = Instant::now();
        let (put, seen) = tokio::join!(writer.put("floor", "value", None), async {
            events.message().await.map(|_| sent.elapsed())
        });
        put?;
        times.record(seen?.as_micros() as u64)?;
        sleep(HOLD).await;
    }
    Ok(times)
}

fn report(peer: &str, workers: usize, rounds: &[Round], floor: f64) {
    let p50 = median(rounds.iter().map(|round| quantile(&round.gaps, 0.5)));
    let p99 = median(rounds.iter().map(|round| quantile(&round.gaps, 0.99)));
    let fairness = median(rounds.iter().map(|round| round.fairness));
    let ratio = p50 / floor.max(1.0);
    println!("{peer:24} {workers:>4} {p50:>9} {p99:>9} {ratio:>7.2} {fairness:>9.2}");
}

fn quantile(times: &Histogram<u64>, quantile: f64) -> f64 {
    times.value_at_quantile(quantile) as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
