//! `leasehold bench`: measures the cost of locks on a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use leasehold::{LockClient, LockError, LockGuard, LockRequest, Wait};
use tokio::sync::Notify;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::label;
use crate::terminal::{HEADING, print, styled};
use crate::url::StoreUrl;

/// The lock that is held during the measurement, so that no other bench disturbs it, and the start of our names. They
/// are always the same, so that no run leaves anything new behind.
const NAME: &str = "leasehold-bench";

const TTL: Duration = Duration::from_secs(10);

/// Longest time of a request, unless something is wrong.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: &args::Bench, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect_to_measure().await?;
    let alone = client.acquire(request(NAME).wait(Wait::Never)).await?;
    print(client.capabilities())?;
    print(styled(HEADING, heading()))?;
    let span = Duration::from_secs(args.seconds);
    let floor = looking(&client, span).await?;
    floor.print("floor: inspect a lock", &floor)?;
    acquiring(&client, span).await?.print("acquire and release", &floor)?;
    extending(&alone, span).await?.print("renew", &floor)?;
    handing_off(&client, &store.connect_to_measure().await?, span)
        .await?
        .print("hand-off", &floor)?;
    alone.release().await?;
    client.shutdown().await;
    Ok(Exit::Done)
}

/// Durations of an operation.
struct Figure {
    times: Histogram<u64>,
}

impl Figure {
    /// Repeats an operation until `span` is over.
    async fn of(
        span: Duration,
        mut once: impl AsyncFnMut() -> Result<Duration, LockError>,
    ) -> Result<Self, Failure> {
        let times = Histogram::new(3).map_err(|error| Failure::system("cannot measure", &error));
        let (mut times, end) = (times?, Instant::now() + span);
        while Instant::now() < end {
            let took = once().await?.as_micros();
            // The histogram grows as needed; a value that no span can have is not noted.
            let _ = times.record(took.try_into().unwrap_or(u64::MAX));
        }
        Ok(Self { times })
    }

    fn print(&self, what: &str, floor: &Self) -> std::io::Result<()> {
        let at = |quantile| self.times.value_at_quantile(quantile);
        let ratio = at(0.5) as f64 / floor.times.value_at_quantile(0.5).max(1) as f64;
        let (count, p50, p99, max) = (self.times.len(), at(0.5), at(0.99), self.times.max());
        print(format!("{what:24} {count:>9} {p50:>9} {p99:>9} {max:>9} {ratio:>8.2}"))
    }
}

fn heading() -> String {
    format!(
        "{:24} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "", "count", "p50 µs", "p99 µs", "max µs", "× floor"
    )
}

fn request(name: &str) -> LockRequest {
    LockRequest::new(name).ttl(TTL).wait(Wait::AtMost(LIMIT)).label(label::host_and_pid())
}

async fn looking(client: &LockClient, span: Duration) -> Result<Figure, Failure> {
    let name = format!("{NAME}:look");
    Figure::of(span, async || {
        let asked = Instant::now();
        client.admin().inspect(&name).await?;
        Ok(asked.elapsed())
    })
    .await
}

async fn acquiring(client: &LockClient, span: Duration) -> Result<Figure, Failure> {
    let name = format!("{NAME}:acquire");
    Figure::of(span, async || {
        let asked = Instant::now();
        client.acquire(request(&name)).await?.release().await?;
        Ok(asked.elapsed())
    })
    .await
}

async fn extending(guard: &LockGuard, span: Duration) -> Result<Figure, Failure> {
    Figure::of(span, async || {
        let asked = Instant::now();
        guard.extend(TTL).await?;
        Ok(asked.elapsed())
    })
    .await
}

/// Measures from one client's call of release to the return of the other's waiting acquisition.
async fn handing_off(
    one: &LockClient,
    other: &LockClient,
    span: Duration,
) -> Result<Figure, Failure> {
    let name = format!("{NAME}:hand-off");
    let mut next = [other, one].into_iter().cycle();
    let mut holder = Some(one.acquire(request(&name)).await?);
    let figure = Figure::of(span, async || {
        let (Some(guard), Some(client)) = (holder.take(), next.next()) else {
            return Ok(Duration::ZERO);
        };
        let (guard, took) = hand_off(guard, client, &name).await?;
        holder = Some(guard);
        Ok(took)
    });
    let figure = figure.await?;
    if let Some(guard) = holder {
        guard.release().await?;
    }
    other.shutdown().await;
    Ok(figure)
}

/// Releases `held` once `client` waits for it.
async fn hand_off(
    held: LockGuard,
    client: &LockClient,
    name: &str,
) -> Result<(LockGuard, Duration), LockError> {
    let waits = Arc::new(Notify::new());
    let told = waits.clone();
    let acquiring = client.acquire(request(name).on_wait(move |_| told.notify_one()));
    let releasing = async {
        waits.notified().await;
        let released = Instant::now();
        held.release().await.map(|_| released)
    };
    let (acquired, released) =
        tokio::join!(async { acquiring.await.map(|guard| (guard, Instant::now())) }, releasing);
    let (guard, entered) = acquired?;
    Ok((guard, entered.saturating_duration_since(released?)))
}
