//! How long a lock on Postgres is free between two holders, beside `pg_advisory_lock`; and what a lock
//! that nobody else wants costs, beside two plain writes. In one run.
//!
//! Every worker is a client of its own, as if on a host of its own. It holds the lock for 1 ms, and
//! after a release stays away until another has been in: each acquisition changes hands. Measured is
//! the time from the call of release to the next holder's return. Rounds of the peers and of the floor,
//! which is the time from a NOTIFY to the listener, alternate; each figure is the median of its rounds.
//!
//! `cargo bench --features postgres --bench handoff_postgres [-- [--url URL] [--seconds N] [--rounds N]]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use hdrhistogram::Histogram;
use leasehold::{LockClient, LockGuard, LockRequest};
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use test_support::PostgresServer;
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TTL: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_millis(1);
const WORKERS: [usize; 3] = [2, 16, 64];

/// How often an operation is repeated that is measured by itself.
const REPEATS: usize = 2000;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let options = Options::from_args();
    let server = match &options.url {
        None => Some(PostgresServer::start_with(&["fsync=on", "full_page_writes=on"]).await),
        Some(_) => None,
    };
    let url = options.url.clone().or(server.as_ref().map(PostgresServer::url)).unwrap_or_default();
    println!(
        "{:24} {:>4} {:>9} {:>9} {:>7} {:>9}",
        "peer", "W", "p50 µs", "p99 µs", "× floor", "slow/fast"
    );
    for workers in WORKERS {
        hand_offs(&url, workers, &options).await?;
    }
    println!("\n{:24} {:>14} {:>9}", "uncontended", "p50 µs", "p99 µs");
    for _ in 0..options.rounds {
        uncontended(&url).await?;
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
    Table,
    Advisory,
    PgAdvisoryLock,
}

const PEERS: [Peer; 3] = [Peer::Table, Peer::Advisory, Peer::PgAdvisoryLock];

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "leasehold, table",
            Self::Advisory => "leasehold, advisory",
            Self::PgAdvisoryLock => "pg_advisory_lock",
        }
    }

    async fn client(self, url: &str) -> Result<Client, Error> {
        Ok(match self {
            Self::Table => Client::Leasehold(leasehold::connect(url).await?),
            Self::Advisory => {
                Client::Leasehold(leasehold::connect(&format!("{url}?lock_mode=advisory")).await?)
            }
            Self::PgAdvisoryLock => Client::Session(Mutex::new(PgConnection::connect(url).await?)),
        })
    }
}

enum Client {
    Leasehold(LockClient),
    Session(Mutex<PgConnection>),
}

impl Client {
    async fn acquire(&self, name: &str) -> Result<Option<LockGuard>, Error> {
        match self {
            Self::Leasehold(client) => {
                Ok(Some(client.acquire(LockRequest::new(name).ttl(TTL)).await?))
            }
            Self::Session(session) => {
                let lock = sqlx::query("SELECT pg_advisory_lock(hashtext($1))").bind(name);
                lock.execute(&mut *session.lock().await).await?;
                Ok(None)
            }
        }
    }

    async fn release(&self, name: &str, held: Option<LockGuard>) -> Result<(), Error> {
        match (self, held) {
            (_, Some(guard)) => drop(guard.release().await?),
            (Self::Session(session), None) => {
                let unlock = sqlx::query("SELECT pg_advisory_unlock(hashtext($1))").bind(name);
                unlock.execute(&mut *session.lock().await).await?;
            }
            (Self::Leasehold(_), None) => {}
        }
        Ok(())
    }
}

async fn hand_offs(url: &str, workers: usize, options: &Options) -> Result<(), Error> {
    let mut rounds: Vec<Vec<Round>> = PEERS.iter().map(|_| Vec::new()).collect();
    let mut floors = Vec::new();
    for _ in 0..options.rounds {
        floors.push(floor(url).await?);
        for (peer, rounds) in PEERS.iter().zip(&mut rounds) {
            rounds.push(round(*peer, url, workers, options.span).await?);
        }
    }
    let quantile = |q: f64| median(floors.iter().map(|times| times.value_at_quantile(q) as f64));
    let floor = quantile(0.5);
    println!(
        "{:24} {workers:>4} {floor:>9} {:>9} {:>7.2}",
        "NOTIFY to wake-up",
        quantile(0.99),
        1.0
    );
    for (peer, rounds) in PEERS.iter().zip(&rounds) {
        report(peer.name(), workers, rounds, floor);
    }
    Ok(())
}

/// What one round measured.
struct Round {
    gaps: Histogram<u64>,
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
    let (slow, fast) = (entries.iter().min(), entries.iter().max());
    let fairness = *slow.unwrap_or(&0) as f64 / (*fast.unwrap_or(&1)).max(1) as f64;
    Ok(Round { gaps, fairness })
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

/// The time from a NOTIFY to the listener's wake-up.
async fn floor(url: &str) -> Result<Histogram<u64>, Error> {
    let mut notifier = PgConnection::connect(url).await?;
    let mut listener = PgListener::connect(url).await?;
    listener.listen("floor").await?;
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..REPEATS {
        let sent = Instant::now();
        let notify = sqlx::raw_sql("NOTIFY floor");
        let (notified, heard) = tokio::join!(notifier.execute(notify), listener.recv());
        notified?;
        heard?;
        times.record(sent.elapsed().as_micros() as u64)?;
        sleep(HOLD / 2).await;
    }
    Ok(times)
}

/// A lock that nobody else wants, and two writes of a row: alternately, so that both see the same
/// machine.
async fn uncontended(url: &str) -> Result<(), Error> {
    let (table, advisory) = (Peer::Table.client(url).await?, Peer::Advisory.client(url).await?);
    let mut plain = PgConnection::connect(url).await?;
    plain
        .execute("CREATE TABLE IF NOT EXISTS leasehold_bench (name text PRIMARY KEY, n bigint)")
        .await?;
    let upsert = "INSERT INTO leasehold_bench AS b VALUES ('x', 1) \
        ON CONFLICT (name) DO UPDATE SET n = b.n + 1";
    let mut times: Vec<Histogram<u64>> = vec![Histogram::new(3)?; PEERS.len()];
    for _ in 0..REPEATS {
        for (client, times) in [&table, &advisory].into_iter().zip(&mut times) {
            let asked = Instant::now();
            let held = client.acquire("bench:alone").await?;
            client.release("bench:alone", held).await?;
            times.record(asked.elapsed().as_micros() as u64)?;
        }
        let asked = Instant::now();
        for _ in 0..2 {
            plain.execute(sqlx::query(AssertSqlSafe(upsert))).await?;
        }
        times[2].record(asked.elapsed().as_micros() as u64)?;
    }
    plain.execute("DROP TABLE leasehold_bench").await?;
    for (name, times) in
        ["leasehold, table", "leasehold, advisory", "two upserts"].iter().zip(&times)
    {
        println!(
            "{name:24} {:>14} {:>9}",
            times.value_at_quantile(0.5),
            times.value_at_quantile(0.99)
        );
    }
    Ok(())
}

fn report(peer: &str, workers: usize, rounds: &[Round], floor: f64) {
    let p50 = median(rounds.iter().map(|round| round.gaps.value_at_quantile(0.5) as f64));
    let p99 = median(rounds.iter().map(|round| round.gaps.value_at_quantile(0.99) as f64));
    let fairness = median(rounds.iter().map(|round| round.fairness));
    let ratio = p50 / floor.max(1.0);
    println!("{peer:24} {workers:>4} {p50:>9} {p99:>9} {ratio:>7.2} {fairness:>9.2}");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
