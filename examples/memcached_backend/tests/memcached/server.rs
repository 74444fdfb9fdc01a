//! A Memcached server for tests, which ends with the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lock_testkit::eventually;
use lock_testkit::faults::Server;
use lock_testkit::process::{Tethered, require, signal};
use lock_testkit::servers::free_port;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Memcached {
    address: SocketAddr,
    options: Vec<String>,
    process: Tethered,
    folder: TempDir,
}

impl Memcached {
    /// Returns the server of all tests that leave it unchanged.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Memcached> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(&[])).await
    }

    /// Starts a server.
    pub(crate) async fn start(options: &[&str]) -> Self {
        require("memcached", "memcached", "memcached");
        let folder = tempfile::tempdir().expect("a folder");
        let options: Vec<_> = options.iter().map(ToString::to_string).collect();
        loop {
            let address = (Ipv4Addr::LOCALHOST, free_port()).into();
            // Another process may have taken the port.
            if let Some(process) = launched(address, &options, &folder).await {
                return Self { address, options, process, folder };
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        url_at(self.address)
    }

    /// Returns the reply to a line, up to the line that ends the reply.
    pub(crate) async fn say(&self, line: &str) -> String {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let mut stream = BufReader::new(stream);
        stream.write_all(format!("{line}\r\n").as_bytes()).await.expect("it is sent");
        let mut reply = String::new();
        while !["OK\r\n", "END\r\n", "MN\r\n"].iter().any(|end| reply.ends_with(end)) {
            let read = stream.read_line(&mut reply).await.expect("text");
            assert!(read > 0, "it hung up after {reply:?}");
        }
        reply.trim_end().to_owned()
    }

    /// Returns one of its statistics.
    pub(crate) async fn stat(&self, key: &str) -> String {
        let stats = self.say("stats").await;
        let value = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {key} ")));
        value.expect("a statistic").to_owned()
    }
}

pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("memcached://{address}")
}

/// Returns the server once it listens; `None` if it ended instead.
async fn launched(address: SocketAddr, options: &[String], folder: &TempDir) -> Option<Tethered> {
    // The server refuses to run as root without this option.
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let always = ["-l", &host, "-p", &port, "-U", "0", "-u", "root"].map(str::to_owned);
    let args = [&always[..], options].concat();
    let process = Tethered::start("memcached", &args, &folder.path().join("log"));
    eventually("it listens, or has ended", LIMIT, async || {
        !signal::is_running(process.pid()) || TcpStream::connect(address).await.is_ok()
    })
    .await;
    signal::is_running(process.pid()).then_some(process)
}

impl Server for Memcached {
    fn addr(&self) -> SocketAddr {
        self.address
    }

    fn stop(&self) {
        signal::stop(self.process.pid());
    }

    fn cont(&self) {
        signal::cont(self.process.pid());
    }

    fn kill(&mut self) {
        self.process.end();
    }

    /// A restart loses all data.
    async fn restart(&mut self) {
        self.kill();
        let process = launched(self.address, &self.options, &self.folder).await;
        self.process = process.expect("its port is free");
    }
}
