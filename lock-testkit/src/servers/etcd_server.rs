//! An etcd server for tests.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::certificates::{Certificates, make_certificates};
use super::launched::{anew, launched, log_path, until_up};
use super::redis_server::owned;
use super::{free_port, on_free_ports};
use crate::process::Tethered;
use crate::process::new_folder;
use crate::process::require;

/// Limit for a very busy machine; a server leads within a second.
const LIMIT: Duration = Duration::from_secs(20);

/// Longest wait for one look at a server's health.
const LOOK: Duration = Duration::from_secs(2);

/// A real `etcd` with its own ports and folder, alone or as a member of an [`EtcdCluster`](crate::EtcdCluster).
///
/// Dropping the value kills the server. It also ends with the test process, however that ends. The server's data
/// is on disk, so it survives [`restart`](Self::restart). Starting takes about a second, so tests that can share
/// a server do.
#[derive(Debug)]
pub struct EtcdServer {
    // The process comes before the folder, because fields are dropped in this order.
    process: Tethered,
    member: Member,
    password: Option<String>,
    folder: TempDir,
}

/// Settings that a restart keeps.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    name: String,
    ports: Ports,
    tls: bool,
    /// Name and peer address of every member.
    cluster: String,
    args: Vec<String>,
}

/// Ports of a server: for clients, for its peers, and for requests about its health, which it answers without
/// TLS.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    health: u16,
}

launched!(EtcdServer, alone);

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

    /// Starts a server that speaks TLS only, to clients that trust the authority of the
    /// [`certificates`](Self::certificates). Its certificate is for `localhost` and 127.0.0.1.
    ///
    /// # Panics
    /// As [`start`](Self::start), and if `openssl` is not installed.
    pub async fn start_tls() -> Self {
        Self::start_alone(&[], true).await
    }

    /// Starts a server that requires a user and a password. The user `root` has `password`, and may do
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

    /// Starts a server as [`start_tls`](Self::start_tls) that demands a certificate of each client.
    ///
    /// # Panics
    /// As [`start_tls`](Self::start_tls).
    pub async fn start_demanding() -> Self {
        Self::start_alone(&["--client-cert-auth"], true).await
    }

    async fn start_alone(args: &[&str], tls: bool) -> Self {
        let mut servers = on_free_ports(|| async {
            let mut members = Member::group(1, args);
            members[0].tls = tls;
            Self::start_all(members).await
        })
        .await;
        servers.remove(0)
    }

    /// Starts all members of a cluster, and waits until each takes writes. The error is the log of a member.
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
            server.member.until_healthy(&server.process, server.folder()).await?;
        }
        Ok(servers)
    }

    /// Returns the URL for clients: `etcd://127.0.0.1:…/`, or `etcds://localhost:…/`, with user and password if
    /// the server requires them.
    pub fn url(&self) -> String {
        let port = self.port();
        match (&self.password, self.member.tls) {
            (None, false) => format!("etcd://127.0.0.1:{port}/"),
            (None, true) => format!("etcds://localhost:{port}/"),
            (Some(password), _) => format!("etcd://root:{password}@127.0.0.1:{port}/"),
        }
    }

    /// Returns the address for clients, such as for a [`Proxy`](crate::Proxy).
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.member.ports.client
    }

    /// Returns the certificates of a server with TLS.
    pub fn certificates(&self) -> Certificates {
        Certificates::at(self.folder.path())
    }

    /// Runs one command of `etcdctl` on this server, logged in if it requires a password, and returns the output:
    /// `ctl(&["get", "--prefix", "a/"])`.
    ///
    /// # Panics
    /// If the command fails; the message has the output.
    pub fn ctl(&self, command: &[&str]) -> String {
        self.try_ctl(command).unwrap_or_else(|said| panic!("etcdctl {command:?}: {said}"))
    }

    /// Like [`ctl`](Self::ctl), but a failure is an error. Waits at most five seconds for the server.
    ///
    /// # Errors
    /// The error output of `etcdctl`.
    ///
    /// # Panics
    /// If `etcdctl` is not installed; the message says how to install it.
    pub fn try_ctl(&self, command: &[&str]) -> Result<String, String> {
        require("etcdctl", "etcd-client", "etcd");
        let scheme = if self.member.tls { "https" } else { "http" };
        let mut etcdctl = Command::new("etcdctl");
        etcdctl.env("ETCDCTL_API", "3").arg(format!("--endpoints={scheme}://{}", self.addr()));
        if let Some(password) = &self.password {
            etcdctl.arg(format!("--user=root:{password}"));
        }
        if self.member.tls {
            etcdctl.arg(format!("--cacert={}", self.certificates().ca_path().display()));
        }
        let output = etcdctl.args(command).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Returns the server's metrics, in Prometheus' format.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn metrics(&self) -> String {
        ask(self.member.ports.health, "/metrics").await.expect("the server tells its metrics")
    }

    /// Kills the server if it runs and starts it again, on the same ports and with the same data. A member of a
    /// cluster takes writes only while a majority runs.
    ///
    /// # Panics
    /// If it takes no writes within twenty seconds; the message has its log.
    pub async fn restart(&mut self) {
        self.kill();
        let (member, folder) = (&self.member, self.folder.path());
        let start = || async {
            let process = member.launch(folder);
            member.until_healthy(&process, folder).await.map(|()| process)
        };
        self.process = anew(LIMIT, start).await;
    }
}

impl Member {
    /// Creates the settings of `count` members of a new cluster, on ports that were just free.
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

    /// Returns once the server takes writes. The error is its log.
    async fn until_healthy(&self, process: &Tethered, folder: &Path) -> Result<(), String> {
        let is_healthy = || async {
            let look = timeout(LOOK, ask(self.ports.health, "/health")).await;
            // `"health":"true"` means that a write succeeded.
            look.is_ok_and(|said| said.is_ok_and(|said| said.contains("\"true\"")))
        };
        until_up(process, folder, LIMIT, is_healthy).await
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
        if self.args.iter().any(|arg| arg == "--client-cert-auth") {
            args.extend(owned(&["--trusted-ca-file", &file("trusted.crt")]));
        }
        args.extend(self.args.clone());
        args
    }
}

/// Sends a GET request to a server, and returns its response.
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
