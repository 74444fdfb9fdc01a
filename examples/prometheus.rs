//! A busy service whose locks are counted, served to Prometheus.
//!
//! ```sh
//! cargo run --features metrics --example prometheus              # works, scrapes itself once, ends
//! cargo run --features metrics --example prometheus -- --serve   # goes on: http://127.0.0.1:9464/metrics
//! ```
//!
//! `docs/observability/grafana.json` is a dashboard for what it serves.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use leasehold::{ClientOptions, LockClient, LockName, LockRequest, MemoryBackend, Wait};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{sleep, timeout};

type Failure = Box<dyn Error + Send + Sync>;

/// Buckets of Prometheus for times: from the fastest lock to the longest hold, in seconds.
const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let serve = std::env::args().any(|arg| arg == "--serve");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, if serve { 9464 } else { 0 }));
    let metrics = record(address)?;

    let options = ClientOptions::new().metric_group(group);
    let locks = LockClient::with_options(MemoryBackend::new(), options);
    if serve {
        println!("http://{address}/metrics");
        loop {
            work(&locks).await?;
        }
    }
    work(&locks).await?;
    print!("{}", timeout(Duration::from_secs(10), scrape(&metrics)).await?);
    Ok(())
}

/// Scrapes as Prometheus does. A loss is told to its holder first, and counted after.
async fn scrape(metrics: &PrometheusHandle) -> String {
    loop {
        let scraped = metrics.render();
        if scraped.contains("leasehold_losses_total") {
            return scraped;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Records all metrics of this process, and serves them at `address`.
fn record(address: SocketAddr) -> Result<PrometheusHandle, Failure> {
    let ours = Matcher::Prefix("leasehold_".into());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(ours, &BUCKETS)?;
    let (recorder, exporter) = builder.with_http_listener(address).build()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    // The exporter serves for as long as the program runs.
    tokio::spawn(exporter);
    Ok(handle)
}

/// There is no limit to the number of names, but the values of a label must be few: so a label gets the
/// first part of a name.
fn group(name: &LockName) -> &'static str {
    match name.as_str().split(':').next() {
        Some("stock") => "stock",
        Some("report") => "report",
        _ => "other",
    }
}

/// Some tasks that want the same items, a caller in a hurry, and a hold that is lost.
async fn work(locks: &LockClient) -> Result<(), Failure> {
    let buyers = (0..40).map(|buyer| {
        let (locks, item) = (locks.clone(), format!("stock:{}", buyer % 4));
        tokio::spawn(async move {
            let sale = locks.with(item, async |_| sleep(Duration::from_millis(5)).await);
            sale.await?.into_value()
        })
    });
    for buyer in buyers.collect::<Vec<_>>() {
        buyer.await??;
    }
    let report = LockRequest::new("report:daily").ttl(Duration::from_millis(300));
    let guard = locks.acquire(report.clone()).await?;
    sleep(Duration::from_millis(500)).await;
    let hurried = locks.acquire(report.wait(Wait::AtMost(Duration::from_millis(20)))).await;
    println!(
        "# the hurried one: {}",
        hurried.err().map(|error| error.to_string()).unwrap_or_default()
    );
    locks.admin().evict("report:daily").await?;
    println!("# the report: {}", guard.lost().await);
    Ok(())
}
