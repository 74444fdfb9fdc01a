//! A Memcached server of one's own, which ends with the test.

use std::path::PathBuf;
use std::time::Duration;

use lock_testkit::eventually;
use lock_testkit::process::{Tethered, require, signal};
use lock_testkit::servers::free_port;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Memcached {
    address: String,
    _process: Tethered,
    _folder: TempDir,
}

impl Memcached {
    /// The server that all tests use which leave it as they found it.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Memcached> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(&[])).await
    }

    /// A server of one's own.
    pub(crate) async fn start(options: &[&str]) -> Self {
        require("memcached", "memcached", "memcached");
        let folder = tempfile::tempdir().expect("a folder");
        loop {
            let port = free_port();
            let process = launch(port, options, folder.path().join("log"));
            let address = format!("127.0.0.1:{port}");
            // Another process may have taken the port meanwhile.
            eventually("it listens, or has ended", LIMIT, async || {
                !signal::is_running(process.pid()) || TcpStream::connect(&*address).await.is_ok()
            })
            .await;
            if signal::is_running(process.pid()) {
                return Self { address, _process: process, _folder: folder };
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("memcached://{}", self.address)
    }

    /// What comes back for a line, up to a line that ends a reply.
    pub(crate) async fn say(&self, line: &str) -> String {
        let stream = TcpStream::connect(&self.address).await.expect("a connection");
        let mut stream = BufReader::new(stream);
        stream.write_all(format!("{line}\r\n").as_bytes()).await.expect("it is sent");
        let mut reply = String::new();
        while !["OK\r\n", "END\r\n"].iter().any(|end| reply.ends_with(end)) {
            let read = stream.read_line(&mut reply).await.expect("text");
            assert!(read > 0, "it hung up after {reply:?}");
        }
        reply.trim_end().to_owned()
    }

    /// One of its statistics.
    pub(crate) async fn stat(&self, key: &str) -> String {
        let stats = self.say("stats").await;
        let value = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {key} ")));
        value.expect("a statistic").to_owned()
    }
}

fn launch(port: u16, options: &[&str], log: PathBuf) -> Tethered {
    // It does not run as root unless it is told to.
    let port = port.to_string();
    let always = ["-l", "127.0.0.1", "-U", "0", "-u", "root", "-p", &port];
    let args: Vec<_> = always.iter().chain(options).map(ToString::to_string).collect();
    Tethered::start("memcached", &args, &log)
}
