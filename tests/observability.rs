//! Compares the dashboard's queries with the metrics of a client.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::{Fence, LockClient, LockRequest, MemoryBackend, MemoryFence};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;

const DASHBOARD: &str = include_str!("../docs/observability/grafana.json");
const ALERTS: &str = include_str!("../docs/observability/alerts.yaml");
const PAGE: &str = include_str!("../docs/observability.md");

/// Returns the words of `text` that are our names.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("leasehold_")).map(str::to_owned).collect()
}

fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("an expression").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_dashboard_and_its_page_name_every_metric() {
    let recorder = PrometheusBuilder::new().set_buckets(&[1.0]).expect("buckets").build_recorder();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let locks = LockClient::new(MemoryBackend::new());
    let guard = locks.acquire(LockRequest::new("a").ttl(Duration::from_secs(1))).await;
    let guard = guard.expect("a free lock");
    tokio::time::sleep(Duration::from_secs(2)).await;
    locks.admin().evict("a").await.expect("an answer");
    guard.lost().await;
    let (fence, next) = (MemoryFence::new(), locks.acquire("a").await.expect("a free lock"));
    fence.advance(next.token()).await.expect("the newest");
    fence.advance(guard.token()).await.expect_err("it is stale");

    let served = recorder.handle().render();
    assert!(served.contains("leasehold_stale_tokens_total 1"), "{served}");
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let asked: BTreeSet<String> =
        expressions(&dashboard).iter().flat_map(|expression| names(expression)).collect();
    for name in &asked {
        let is_served = served.lines().any(|line| {
            line.strip_prefix(&**name).is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        assert!(is_served, "{name} is not in {served}");
    }
    let alerts = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    for alert in alerts {
        assert!(names(alert).iter().all(|name| asked.contains(name)), "no panel shows {alert}");
        let quoted = alert.split('"').skip(1).step_by(2).flat_map(|values| values.split('|'));
        for outcome in quoted {
            assert!(served.contains(&format!("outcome=\"{outcome}\"")), "no {outcome}: {served}");
        }
    }
    let told = served.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for name in told.filter_map(|line| line.split(' ').next()) {
        assert!(asked.iter().any(|asked| asked.starts_with(name)), "no panel shows {name}");
        assert!(PAGE.contains(&format!("`{name}`")), "the page does not tell of {name}");
    }
}
