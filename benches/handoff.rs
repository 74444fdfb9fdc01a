//! How long a lock is free between two holders: the project beside its peers, in one run.
//!
//! Every worker is a client of its own, as if on a host of its own. It holds the lock for 1 ms, and
//! after a release stays away until another has been in: each acquisition changes hands. Measured
//! is the time from the call of release to the next holder's return. Rounds of the peers
//! and of the floor alternate; each figure is the median of its rounds.
//!
//! `cargo bench --features redis --bench handoff [-- [--url URL] [--seconds N] [--rounds N]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{join_all, try_join_all};
use hdrhistogram::Histogram;
use leasehold::{LockClient, LockGuard, LockRequest};
use test_support::RedisServer;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TTL: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_millis(1);
const WORKERS: [usize; 3] = [2, 16, 64];

#[tokio::main]
async fn main() -> Result<(), Error> {
    let options = Options::from_args();
    let server = if options.url.is_none() { Some(RedisServer::start().await) } else { None };
    let url = options.url.clone().or(server.as_ref().map(RedisServer::url)).unwrap_or_default();
    println!(
        "{:24} {:>4} {:>9} {:>9} {:>7} {:>9} {:>9}",
        "peer", "W", "p50 µs", "p99 µs", "× floor", "cmds/acq", "slow/fast"
    );
    for workers in WORKERS {
        let mut rounds: Vec<Vec<Round>> = PEERS.iter().map(|_| Vec::new()).collect();
        let mut floors = Vec::new();
        for _ in 0..options.rounds {
            floors.push(floor(&url).await?);
            for (peer, rounds) in PEERS.iter().zip(&mut rounds) {
                rounds.push(round(*peer, &url, workers, options.span).await?);
            }
        }
        let floor = median(floors.iter().map(|(p50, _)| *p50 as f64));
        let floor_p99 = median(floors.iter().map(|(_, p99)| *p99 as f64));
        println!("{:24} {workers:>4} {floor:>9} {floor_p99:>9} {:>7.2}", "PUBLISH to wake-up", 1.0);
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
    Rslock,
    SetNxPolled,
}

const PEERS: [Peer; 3] = [Peer::Leasehold, Peer::Rslock, Peer::SetNxPolled];

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Rslock => "rslock 0.10",
            Self::SetNxPolled => "SET NX PX every 10 ms",
        }
    }

    async fn client(self, url: &str) -> Result<Client, Error> {
        Ok(match self {
            Self::Leasehold => Client::Leasehold(leasehold::connect(url).await?),
            Self::Rslock => Client::Rslock(rslock::LockManager::new(vec![url])),
            Self::SetNxPolled => {
                let client = redis::Client::open(url)?;
                Client::SetNxPolled(client.get_multiplexed_async_connection().await?)
            }
        })
    }
}

enum Client {
    Leasehold(LockClient),
    Rslock(rslock::LockManager),
    SetNxPolled(redis::aio::MultiplexedConnection),
}

enum Held {
    Leasehold(LockGuard),
    Rslock(rslock::LockGuard),
    Value(String),
}

impl Client {
    async fn acquire(&self, name: &str) -> Result<Held, Error> {
        match self {
            Self::Leasehold(client) => {
                Ok(Held::Leasehold(client.acquire(LockRequest::new(name).ttl(TTL)).await?))
            }
            Self::Rslock(manager) => Ok(Held::Rslock(
                manager.acquire(name.as_bytes(), TTL).await.map_err(|e| format!("{e:?}"))?,
            )),
            Self::SetNxPolled(connection) => {
                let value = rand::random::<u128>().to_string();
                let mut set = redis::cmd("SET");
                set.arg(name).arg(&value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
                while set.query_async::<Option<String>>(&mut connection.clone()).await?.is_none() {
                    sleep(Duration::from_millis(10)).await;
                }
                Ok(Held::Value(value))
            }
        }
    }

    async fn release(&self, name: &str, held: Held) -> Result<(), Error> {
        const DELETE_OWN: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";
        match (self, held) {
            (_, Held::Leasehold(guard)) => drop(guard.release().await?),
            (_, Held::Rslock(guard)) => guard.release().await,
            (Self::SetNxPolled(connection), Held::Value(value)) => {
                let mut delete = redis::cmd("EVAL");
                delete.arg(DELETE_OWN).arg(1).arg(name).arg(value);
                delete.query_async::<i64>(&mut connection.clone()).await?;
            }
            (_, Held::Value(_)) => {}
        }
        Ok(())
    }
}

/// What one round measured.
struct Round {
    gaps: Histogram<u64>,
    commands_per_acquisition: f64,
    /// Acquisitions of the slowest worker, by those of the fastest.
    fairness: f64,
}

/// What the workers of one round share.
struct Track {
    name: String,
    epoch: Instant,
    released: AtomicU64,
    inside: AtomicUsize,
    entries: watch::Sender<u64>,
    end: Instant,
}

async fn round(peer: Peer, url: &str, workers: usize, span: Duration) -> Result<Round, Error> {
    let clients = try_join_all((0..workers).map(|_| peer.client(url))).await?;
    let before = commands(url).await?;
    let track = Arc::new(Track {
        name: format!("bench:{}", rand::random::<u64>()),
        epoch: Instant::now(),
        released: AtomicU64::new(0),
        inside: AtomicUsize::new(0),
        entries: watch::Sender::new(0),
        end: Instant::now() + span,
    });
    let tasks = clients.into_iter().map(|client| tokio::spawn(work(client, track.clone())));
    let mut gaps = Histogram::new(3)?;
    let mut entries = Vec::new();
    for worked in join_all(tasks).await {
        let (worker_gaps, count) = worked??;
        gaps.add(worker_gaps)?;
        entries.push(count);
    }
    let total = entries.iter().sum::<u64>().max(1) as f64;
    let (slow, fast) = (entries.iter().min(), entries.iter().max());
    let fairness = *slow.unwrap_or(&0) as f64 / (*fast.unwrap_or(&1)).max(1) as f64;
    let commands_per_acquisition = (commands(url).await? - before) as f64 / total;
    Ok(Round { gaps, commands_per_acquisition, fairness })
}

async fn work(client: Client, track: Arc<Track>) -> Result<(Histogram<u64>, u64), Error> {
    let (mut gaps, mut count) = (Histogram::new(3)?, 0);
    let mut entries = track.entries.subscribe();
    while Instant::now() < track.end {
        let patience = track.end.saturating_duration_since(Instant::now()) + HOLD * 500;
        let Ok(held) = timeout(patience, client.acquire(&track.name)).await else { break };
        let (held, now) = (held?, micros(track.epoch));
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
        track.released.store(micros(track.epoch), Ordering::SeqCst);
        client.release(&track.name, held).await?;
        let _ = timeout(HOLD * 500, entries.wait_for(|entries| *entries > mark)).await;
    }
    Ok((gaps, count))
}

fn micros(epoch: Instant) -> u64 {
    epoch.elapsed().as_micros() as u64
}

/// The time from a PUBLISH to the subscriber's wake-up: p50 and p99 in µs.
async fn floor(url: &str) -> Result<(u64, u64), Error> {
    let client = redis::Client::open(url)?;
    let mut publisher = client.get_multiplexed_async_connection().await?;
    let mut subscriber = client.get_async_pubsub().await?;
    subscriber.subscribe("floor").await?;
    let mut messages = subscriber.into_on_message();
    let mut times = Histogram::<u64>::new(3)?;
    for i in 0..2000 {
        let sent = Instant::now();
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("floor").arg(i);
        let (published, _) =
            tokio::join!(publish.query_async::<i64>(&mut publisher), messages.next());
        published?;
        times.record(sent.elapsed().as_micros() as u64)?;
        sleep(HOLD / 2).await;
    }
    Ok((times.value_at_quantile(0.5), times.value_at_quantile(0.99)))
}

async fn commands(url: &str) -> Result<u64, Error> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("stats").query_async(&mut connection).await?;
    let count = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(count.unwrap_or("0").trim().parse()?)
}

fn report(peer: &str, workers: usize, rounds: &[Round], floor: f64) {
    let p50 = median(rounds.iter().map(|round| round.gaps.value_at_quantile(0.5) as f64));
    let p99 = median(rounds.iter().map(|round| round.gaps.value_at_quantile(0.99) as f64));
    let commands = median(rounds.iter().map(|round| round.commands_per_acquisition));
    let fairness = median(rounds.iter().map(|round| round.fairness));
    let ratio = p50 / floor.max(1.0);
    println!(
        "{peer:24} {workers:>4} {p50:>9} {p99:>9} {ratio:>7.2} {commands:>9.1} {fairness:>9.2}"
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
