//! A service that gets no CPU, or whose handlers block, and renewals on a runtime of their own.
//!
//! Measures the lateness of renewals, from when one is due to its confirmation. Each line is one state of the service.
//! In the first half the locks live on the runtime of the service, in the second half on a runtime of their own, where
//! handlers that block may cost no hold.
//!
//! `cargo run --release -p own_runtime [-- --seconds 30 --url URL]`

use std::error::Error;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use clap::Parser;
use futures_util::future::try_join_all;
use leasehold::{ClientOptions, LockClient, LockError, LockGuard, LockRequest};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::runtime::{Builder, Handle, Runtime};

/// A hold is renewed each second.
const TTL: Duration = Duration::from_secs(3);

/// Number of clients, each with one hold.
const CLIENTS: usize = 16;

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// The store of the locks; memory if it is left out.
    #[arg(
        long,
        env = "LEASEHOLD_URL",
        hide_env_values = true,
        default_value = "memory:own-runtime"
    )]
    url: String,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

/// State of a service.
struct State {
    name: &'static str,
    /// Number of threads for each core that spin.
    spinning: usize,
    /// Time for which a handler blocks its thread; zero for no handlers. There are four for each core at a time.
    blocks: Duration,
}

const STATES: [State; 3] = [
    State { name: "idle", spinning: 0, blocks: Duration::ZERO },
    State { name: "cores taken", spinning: 4, blocks: Duration::ZERO },
    State { name: "handlers block for 10 ms", spinning: 0, blocks: Duration::from_millis(10) },
];

fn main() -> Result<(), Failure> {
    let (args, recorder) = (Args::parse(), DebuggingRecorder::new());
    let (snapshotter, span) = (recorder.snapshotter(), Duration::from_secs(args.seconds));
    recorder.install()?;
    let service = Builder::new_multi_thread().enable_all().build()?;
    // One thread is enough for the renewals of thousands of holds.
    let own = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for (title, runtime) in [("the service's runtime", &service), ("a runtime of their own", &own)]
    {
        println!("locks on {title}:");
        for state in &STATES {
            let lost = measure(&args.url, state, &service, runtime, span, &snapshotter)?;
            // Without CPU the store may be late as well.
            if lost > 0 && std::ptr::eq(runtime, &own) && state.spinning == 0 {
                return Err(format!("{}: {lost} of {CLIENTS} holds were lost", state.name).into());
            }
        }
    }
    service.shutdown_background();
    Ok(())
}

/// Holds locks of clients that live on `locks`, while `service` is in a state. Returns the number of lost holds.
fn measure(
    url: &str,
    state: &State,
    service: &Runtime,
    locks: &Runtime,
    span: Duration,
    snapshotter: &Snapshotter,
) -> Result<usize, Failure> {
    // All calls are made on the runtime of the locks, so that their connections belong to it too.
    let holds = locks
        .block_on(try_join_all((0..CLIENTS).map(|number| held(url, number, locks.handle()))))?;
    snapshotter.snapshot();
    let burden = Arc::new(AtomicBool::new(true));
    burden_all(state, service.handle(), &burden);
    thread::sleep(span);
    burden.store(false, Ordering::Relaxed);
    let lost = holds.iter().filter(|(_, guard)| !guard.is_held()).count();
    let late = lateness(snapshotter);
    let at = |part: f64| {
        late.get((late.len() as f64 * part) as usize).or(late.last()).map_or(f64::NAN, |s| s * 1e3)
    };
    println!(
        "{:26} {:5} renewals, late by p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms; {lost} of {CLIENTS} holds lost",
        state.name,
        late.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    locks.block_on(async {
        for (client, guard) in holds {
            drop(guard);
            client.shutdown().await;
        }
    });
    Ok(lost)
}

async fn held(
    url: &str,
    number: usize,
    locks: &Handle,
) -> Result<(LockClient, LockGuard), LockError> {
    let options = ClientOptions::new().runtime(locks.clone());
    let client = leasehold::connect_with(url, options).await?;
    let guard = client.acquire(LockRequest::new(format!("own-runtime-{number}")).ttl(TTL)).await?;
    Ok((client, guard))
}

/// Puts a service into a state for as long as `burden` is true.
fn burden_all(state: &State, service: &Handle, burden: &Arc<AtomicBool>) {
    let cores = available_parallelism().map_or(1, usize::from);
    for _ in 0..state.spinning * cores {
        let burden = burden.clone();
        thread::spawn(move || {
            while burden.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
    }
    if !state.blocks.is_zero() {
        (0..4 * cores).for_each(|_| handle(service.clone(), state.blocks, burden.clone()));
    }
}

/// Handles a request by code that blocks; then comes the next request.
fn handle(service: Handle, blocks: Duration, burden: Arc<AtomicBool>) {
    let next = service.clone();
    service.spawn(async move {
        thread::sleep(blocks);
        if burden.load(Ordering::Relaxed) {
            handle(next, blocks, burden);
        }
    });
}

/// Returns the lateness of each renewal since the last reading in seconds, sorted.
fn lateness(snapshotter: &Snapshotter) -> Vec<f64> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let late = metrics.filter(|(key, ..)| key.key().name() == "leasehold_renewal_lateness_seconds");
    let mut late: Vec<f64> = late
        .flat_map(|(.., value)| match value {
            DebugValue::Histogram(values) => values.into_iter().map(|value| value.0).collect(),
            _ => Vec::new(),
        })
        .collect();
    late.sort_by(f64::total_cmp);
    late
}
