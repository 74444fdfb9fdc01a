//! An etcd server of one's own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::certificates::make_certificates;
use super::free_port;
use super::redis_server::owned;
use crate::eventually::POLL_INTERVAL;
use crate::process::Tethered;
use crate::process::new_folder;
use crate::process::require;
use crate::process::signal;

/// A server leads within a second; this is for a machine that is very busy.
const LIMIT: Duration = Duration::from_secs(20);

/// Longest time of one look at a server's health.
const LOOK: Duration = Duration::from_secs(2);

/// Number of sets of ports that are tried. A port seldom is taken between the choice and the start.
pub(crate) const PORTS_TRIED: usize = 5;

/// A real `etcd` with ports and a folder of its own, alone or as a member of an
/// [`EtcdCluster`](crate::EtcdCluster).
///
/// It is killed when the value is dropped, and also when the test process ends in any other way.
/// Its data is on disk, so it survives [`restart`](Self::restart). Starting takes about a second:
/// tests that need no server of their own share one.
#[derive(Debug)]
pub struct EtcdServer {
    // Above the folder, because fields are dropped in this order.
    process: Tethered,
    member: Member,
    password: Option<String>,
    folder: TempDir,
}

/// Settings that stay when a server is started again.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    name: String,
    ports: Ports,
    tls: bool,
    /// Every member's name and address for its peers.
    cluster: String,
    args: Vec<String>,
}

/// Where a server listens: for clients, for its peers, and for questions about its health, which
/// are answered without TLS.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    health: u16,
}

impl EtcdServer {
    /// Starts a server on free ports of 127.0.0.1, and returns once it takes writes.
    ///
    /// # Panics
    /// If `etcd` is not installed, with what to install; if it takes no writes within twenty
    /// seconds, with its log.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more arguments, such as `--quota-backend-bytes 1000000`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(args: &[&str]) -> Self {
        Self::start_alone(args, false).await
    }

    /// Starts a server that speaks TLS only, to clients that trust [`ca_path`](Self::ca_path). Its
    /// certificate is for `localhost` and 127.0.0.1.
    ///
    /// # Panics
    /// As [`start`](Self::start), and if `openssl` is not installed.
    pub async fn start_tls() -> Self {
        Self::start_alone(&[], true).await
    }

    /// Starts a server that wants a user and a password; ours is `root` with `password`, and may do
    /// everything. Add others by [`ctl`](Self::ctl).
    ///
    /// # Panics
    /// As [`start`](Self::start), and if `etcdctl` is not installed.
    pub async fn start_with_password(password: &str) -> Self {
        let mut server = Self::start().await;
        server.ctl(&["user", "add", &format!("root:{password}")]);
        server.ctl(&["user", "grant-role", "root", "root"]);
        server.ctl(&["auth", "enable"]);
        server.password = Some(password.to_owned());
        server
    }

    async fn start_alone(args: &[&str], tls: bool) -> Self {
        for _ in 0..PORTS_TRIED {
            let mut members = Member::group(1, args);
            members[0].tls = tls;
            match Self::start_all(members).await {
                Ok(mut servers) => return servers.remove(0),
                Err(log) if is_port_taken(&log) => {}
                Err(log) => panic!("{log}"),
            }
        }
        panic!("no free ports in {PORTS_TRIED} tries");
    }

    /// Starts all members of a cluster, and waits until each takes writes. The error is a log.
    pub(crate) async fn start_all(members: Vec<Member>) -> Result<Vec<Self>, String> {
        let mut servers = Vec::new();
        for member in members {
            let folder = new_folder();
            if member.tls {
                make_certificates(folder.path());
            }
            let process = member.launch(folder.path());
            servers.push(Self { process, member, password: None, folder });
        }
        for server in &servers {
            server.until_healthy().await?;
        }
        Ok(servers)
    }

    /// Where clients connect: `etcd://127.0.0.1:…/`, or `etcds://localhost:…/`, with user and
    /// password if it wants them.
    pub fn url(&self) -> String {
        let port = self.port();
        match (&self.password, self.member.tls) {
            (None, false) => format!("etcd://127.0.0.1:{port}/"),
            (None, true) => format!("etcds://localhost:{port}/"),
            (Some(password), _) => format!("etcd://root:{password}@127.0.0.1:{port}/"),
        }
    }

    /// The address for clients, as a [`Proxy`](crate::Proxy) wants it.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.member.ports.client
    }

    /// The process id; another one after [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The server's folder, where it writes what it keeps.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The authority's certificate, a PEM file, of a server with TLS.
    pub fn ca_path(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Returns the server's log since it was last started.
    pub fn log(&self) -> String {
        read_log(self.folder.path())
    }

    /// Runs one command of `etcdctl` on this server, logged in if it wants a password, and returns
    /// what it prints: `ctl(&["get", "--prefix", "a/"])`.
    ///
    /// # Panics
    /// If the command fails, with what it said.
    pub fn ctl(&self, command: &[&str]) -> String {
        self.try_ctl(command).unwrap_or_else(|said| panic!("etcdctl {command:?}: {said}"))
    }

    /// As [`ctl`](Self::ctl), but a failure is an error: what `etcdctl` said. It gives a server that
    /// does not answer five seconds.
    ///
    /// # Errors
    /// What `etcdctl` said.
    ///
    /// # Panics
    /// If `etcdctl` is not installed, with what to install.
    pub fn try_ctl(&self, command: &[&str]) -> Result<String, String> {
        require("etcdctl", "etcd-client", "etcd");
        let scheme = if self.member.tls { "https" } else { "http" };
        let mut etcdctl = Command::new("etcdctl");
        etcdctl.env("ETCDCTL_API", "3").arg(format!("--endpoints={scheme}://{}", self.addr()));
        if let Some(password) = &self.password {
            etcdctl.arg(format!("--user=root:{password}"));
        }
        if self.member.tls {
            etcdctl.arg(format!("--cacert={}", self.ca_path().display()));
        }
        let output = etcdctl.args(command).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// The server's metrics, in Prometheus' format.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn metrics(&self) -> String {
        ask(self.member.ports.health, "/metrics").await.expect("the server tells its metrics")
    }

    /// Kills the server (SIGKILL), stopped or not; it is gone when this returns.
    pub fn kill(&mut self) {
        self.process.end();
    }

    /// Stops the server (SIGSTOP): connections stay open, and nothing is answered.
    pub fn stop(&self) {
        signal::stop(self.pid());
    }

    /// Lets a stopped server go on (SIGCONT).
    pub fn cont(&self) {
        signal::cont(self.pid());
    }

    /// Kills the server if it runs and starts it again, on the same ports and with the same data.
    /// A member of a cluster takes writes only while a majority runs.
    ///
    /// # Panics
    /// If it takes no writes within twenty seconds, with its log.
    pub async fn restart(&mut self) {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.kill();
            self.process = self.member.launch(self.folder.path());
            match self.until_healthy().await {
                Ok(()) => return,
                Err(log) if is_port_taken(&log) && Instant::now() < deadline => {}
                Err(log) => panic!("{log}"),
            }
        }
    }

    /// Returns once the server takes writes. The error is its log.
    async fn until_healthy(&self) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while !self.is_healthy().await {
            if !signal::is_running(self.pid()) || Instant::now() > deadline {
                return Err(format!("etcd does not start:\n{}", self.log()));
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn is_healthy(&self) -> bool {
        let look = timeout(LOOK, ask(self.member.ports.health, "/health")).await;
        let healthy = look.is_ok_and(|said| said.is_ok_and(|said| said.contains("\"true\"")));
        // `"health":"true"` means that a write went through. Another server may have the port.
        healthy && signal::is_running(self.pid())
    }
}

impl Member {
    /// As many members of one new cluster, on ports that were free a moment ago.
    pub(crate) fn group(count: usize, args: &[&str]) -> Vec<Self> {
        let port = |_| Ports { client: free_port(), peer: free_port(), health: free_port() };
        let ports: Vec<Ports> = (0..count).map(port).collect();
        let peers = ports.iter().enumerate();
        let peers: Vec<String> =
            peers.map(|(i, ports)| format!("member-{i}={}", local(ports.peer))).collect();
        let cluster = peers.join(",");
        let member = |(i, ports)| Self {
            name: format!("member-{i}"),
            ports,
            tls: false,
            cluster: cluster.clone(),
            args: owned(args),
        };
        ports.into_iter().enumerate().map(member).collect()
    }

    fn launch(&self, folder: &Path) -> Tethered {
        require("etcd", "etcd-server", "etcd");
        Tethered::start("etcd", &self.arguments(folder), &log_path(folder))
    }

    fn arguments(&self, folder: &Path) -> Vec<String> {
        let file = |name: &str| folder.join(name).display().to_string();
        let (peer, client) = (local(self.ports.peer), local(self.ports.client));
        let client = if self.tls { client.replace("http:", "https:") } else { client };
        let mut args = owned(&["--name", &self.name, "--data-dir", &file("data")]);
        args.extend(owned(&["--listen-client-urls", &client, "--advertise-client-urls", &client]));
        args.extend(owned(&["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]));
        args.extend(owned(&["--initial-cluster", &self.cluster]));
        args.extend(owned(&["--listen-metrics-urls", &local(self.ports.health)]));
        if self.tls {
            args.extend(owned(&["--cert-file", &file("server.crt")]));
            args.extend(owned(&["--key-file", &file("server.key")]));
        }
        args.extend(self.args.clone());
        args
    }
}

/// Asks a server for its own account.
async fn ask(port: u16, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut said = String::new();
    connection.read_to_string(&mut said).await?;
    Ok(said)
}

fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

pub(crate) fn is_port_taken(log: &str) -> bool {
    log.contains("address already in use")
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("etcd.log")
}

fn read_log(folder: &Path) -> String {
    fs::read_to_string(log_path(folder)).unwrap_or_default()
}
