//! Figures that Redis servers report.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Total work of servers so far, and their present memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Server {
    /// In bytes.
    pub(crate) memory: f64,
    pub(crate) cpu: Duration,
    /// Requests of lock clients, which are scripts.
    pub(crate) requests: f64,
}

impl Server {
    pub(crate) async fn look(servers: &[String]) -> Result<Self, Failure> {
        let mut all = Self::default();
        for url in servers {
            all.add(url).await?;
        }
        Ok(all)
    }

    async fn add(&mut self, url: &str) -> Result<(), Failure> {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let info: String =
            redis::cmd("INFO").arg("everything").query_async(&mut connection).await?;
        let told: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.split_once(':')).collect();
        let number = |key: &str| told.get(key).and_then(|text| text.parse::<f64>().ok());
        let seconds = |key: &str| number(key).unwrap_or_default();
        let calls = |command: &str| told.get(command).and_then(|stats| calls(stats));
        self.memory += number("used_memory").ok_or("the server tells no memory")?;
        self.cpu += Duration::from_secs_f64(seconds("used_cpu_user") + seconds("used_cpu_sys"));
        self.requests +=
            ["cmdstat_evalsha", "cmdstat_eval"].into_iter().filter_map(calls).sum::<f64>();
        Ok(())
    }
}

/// Parses statistics such as `calls=12,usec=…`.
fn calls(stats: &str) -> Option<f64> {
    stats.strip_prefix("calls=")?.split(',').next()?.parse().ok()
}
