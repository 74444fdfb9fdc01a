//! `--metrics-file`: the metrics of the library, for the textfile collector of node_exporter.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::terminal;

/// Interval of the writes.
const INTERVAL: Duration = Duration::from_secs(10);

/// From the fastest lock to the longest hold, in seconds.
const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

/// Does `work`, and writes its metrics meanwhile and at its end, if a file is named.
///
/// # Errors
/// The error of `work`; or, before `work`, that the file cannot be written.
pub(crate) async fn written(
    asked: &args::Metrics,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let Some(path) = &asked.file else { return work.await };
    let file = MetricsFile::new(path)?;
    file.write().await.map_err(|error| file.failed(&error))?;
    let ended = tokio::select! {
        biased;
        ended = work => ended,
        never = file.keep_written() => match never {},
    };
    file.try_to_write().await;
    ended
}

struct MetricsFile {
    path: PathBuf,
    metrics: PrometheusHandle,
    /// True if the last write failed, which was told.
    fails: Cell<bool>,
}

impl MetricsFile {
    fn new(path: &Path) -> Result<Self, Failure> {
        let refused = |why: &dyn std::fmt::Display| {
            Failure::new(Exit::Usage, format!("--metrics-file {}: {why}", path.display()))
        };
        let name = path.file_name().ok_or_else(|| refused(&"it is no file"))?;
        // The collector refuses two files with one series.
        let builder = PrometheusBuilder::new().add_global_label("file", name.to_string_lossy());
        let metrics = builder.set_buckets(&BUCKETS).and_then(PrometheusBuilder::install_recorder);
        let metrics = metrics.map_err(|error| refused(&error))?;
        Ok(Self { path: path.to_owned(), metrics, fails: Cell::new(false) })
    }

    async fn keep_written(&self) -> Infallible {
        loop {
            sleep(INTERVAL).await;
            self.try_to_write().await;
        }
    }

    async fn try_to_write(&self) {
        let written = self.write().await;
        let failed_before = self.fails.replace(written.is_err());
        if let Some(error) = written.err().filter(|_| !failed_before) {
            terminal::warning(self.failed(&error).message());
        }
    }

    /// Writes the file by a rename, so that no reader sees a part.
    async fn write(&self) -> io::Result<()> {
        let (path, metrics) = (self.path.clone(), self.metrics.clone());
        let write = move || {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let mut unnamed = tempfile::Builder::new();
            // The collector runs as another user.
            let unnamed = unnamed.permissions(Permissions::from_mode(0o644));
            let mut file = unnamed.tempfile_in(folder.unwrap_or(Path::new(".")))?;
            file.write_all(metrics.render().as_bytes())?;
            file.persist(&path)?;
            Ok(())
        };
        spawn_blocking(write).await.map_err(io::Error::other)?
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let file = self.path.display();
        Failure::new(Exit::Output, format!("--metrics-file {file}: {error}"))
    }
}
