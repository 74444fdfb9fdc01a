//! A ZooKeeper server for tests.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::certificates::Certificates;
use super::launched::{anew, launched, log_path, until_up};
use super::redis_server::owned;
use super::wall_clock::{self, WallClock};
use super::{free_port, on_free_ports};
use crate::process::{Tethered, new_folder, require};

/// Limit for a very busy machine; a server answers within two seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest wait for one look at a server.
const LOOK: Duration = Duration::from_secs(2);

/// Jars of the server and its log, as Debian and Homebrew install them.
const JARS: [&str; 7] = [
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/slf4j-simple.jar",
    // For TLS, beside those that Debian's server names itself.
    "/usr/share/java/netty-codec.jar",
    "/usr/share/java/netty-resolver.jar",
    "/usr/share/java/netty-transport-native-unix-common.jar",
    "/usr/share/zookeeper/lib/*",
    "/opt/homebrew/opt/zookeeper/libexec/lib/*",
];

/// Options of the virtual machine: for a fast start and little memory. Writes do not wait for the disk: the
/// operating system, which outlives the server, has them.
///
/// A member that is cut off from the majority still serves reads, to clients that ask for that.
const JAVA: [&str; 7] = [
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.forceSync=no",
    "-Dreadonlymode.enabled=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
];

/// A real ZooKeeper with its own port and folder, alone or as a member of a
/// [`ZooKeeperEnsemble`](crate::ZooKeeperEnsemble).
///
/// Dropping the value kills the server. It also ends with the test process, however that ends. The server's data
/// is on disk, so it survives [`restart`](Self::restart). Its tick is 100 ms, and it grants sessions of 200 ms to
/// an hour; a server with the usual settings grants 4 s to 40 s. Starting takes about a second, so tests that can
/// share a server do.
#[derive(Debug)]
pub struct ZooKeeperServer {
    // The process comes before the folder, because fields are dropped in this order.
    process: Tethered,
    port: u16,
    /// The port that speaks TLS, and what it proves itself by.
    tls: Option<(u16, Certificates)>,
    folder: TempDir,
}

launched!(ZooKeeperServer, alone);

impl ZooKeeperServer {
    /// Starts a server on a free port of 127.0.0.1, and returns once it answers.
    ///
    /// # Panics
    /// If Java or ZooKeeper is not installed (the message says how to install it), or if it does not answer
    /// within a minute (the message has its log).
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more lines of settings, such as `maxSessionTimeout=40000`. They come last, and
    /// override the others.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(settings: &[&str]) -> Self {
        let settings = settings.join("\n");
        on_free_ports(|| Self::start_in(new_folder(), &settings)).await
    }

    /// Starts a server with a [`clock`](Self::clock) of its own on Linux; elsewhere it prints that it has none.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with_clock() -> Self {
        on_free_ports(|| async {
            let folder = new_folder();
            WallClock::make_in(folder.path());
            Self::start_in(folder, "").await
        })
        .await
    }

    /// Starts a server whose clients speak TLS, and trust the authority of the
    /// [`certificates`](Self::certificates). Its certificate is for `localhost` and 127.0.0.1. Only [`ask`](Self::ask) goes without TLS.
    ///
    /// # Panics
    /// As [`start`](Self::start), and if `openssl` is not installed.
    pub async fn start_tls() -> Self {
        Self::start_secure("none").await
    }

    /// Starts a server as [`start_tls`](Self::start_tls) that demands a certificate of each client by TLS.
    ///
    /// # Panics
    /// As [`start_tls`](Self::start_tls).
    pub async fn start_demanding() -> Self {
        Self::start_secure("need").await
    }

    async fn start_secure(client_auth: &str) -> Self {
        let certificates = Certificates::new();
        let (key_store, trust_store) = (certificates.key_store(), certificates.trusted());
        let (server, port) = on_free_ports(|| async {
            let port = free_port();
            let settings = format!(
                "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.keyStore.location={}\nssl.keyStore.type=PEM\n\
                 ssl.trustStore.location={}\nssl.trustStore.type=PEM\nssl.clientAuth={client_auth}",
                key_store.display(),
                trust_store.display()
            );
            Ok((Self::start_in(new_folder(), &settings).await?, port))
        })
        .await;
        Self { tls: Some((port, certificates)), ..server }
    }

    async fn start_in(folder: TempDir, settings: &str) -> Result<Self, String> {
        let server = Self::launch_in(folder, free_port(), 1, settings);
        server.until_it_answers().await?;
        Ok(server)
    }

    /// Starts a server as the member `id`, without waiting for its answer.
    pub(crate) fn launch(port: u16, id: usize, settings: &str) -> Self {
        Self::launch_in(new_folder(), port, id, settings)
    }

    fn launch_in(folder: TempDir, port: u16, id: usize, settings: &str) -> Self {
        write_settings(folder.path(), port, id, settings).expect("the folder can be written");
        Self { process: launch(folder.path()), port, tls: None, folder }
    }

    /// The URL for clients: `zookeeper://127.0.0.1:…/`, or `zookeepers://localhost:…/`.
    pub fn url(&self) -> String {
        match &self.tls {
            None => format!("zookeeper://{}/", self.addr()),
            Some((port, _)) => format!("zookeepers://localhost:{port}/"),
        }
    }

    /// Returns the certificates of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref().map(|(_, certificates)| certificates)
    }

    /// Returns the address for clients without TLS, such as for a [`Proxy`](crate::Proxy).
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Sends a command of four letters, such as `stat`, `cons` or `dump`, and returns the answer.
    ///
    /// # Errors
    /// The server cannot be reached, or hangs up.
    pub async fn ask(&self, command: &str) -> std::io::Result<String> {
        ask(self.addr(), command).await
    }

    /// Kills the server if it runs and starts it again, on the same port and with the same data. A member of an
    /// ensemble answers only while a majority runs.
    ///
    /// # Panics
    /// If it does not answer within a minute; the message has its log.
    pub async fn restart(&mut self) {
        self.kill();
        let (folder, address) = (self.folder.path(), self.addr());
        let start = || async {
            let process = launch(folder);
            until_it_answers(&process, folder, address).await.map(|()| process)
        };
        self.process = anew(LIMIT, start).await;
    }

    /// Returns once the server answers. The error is its log.
    pub(crate) async fn until_it_answers(&self) -> Result<(), String> {
        until_it_answers(&self.process, self.folder.path(), self.addr()).await
    }
}

async fn until_it_answers(
    process: &Tethered,
    folder: &Path,
    address: SocketAddr,
) -> Result<(), String> {
    let answers = || async {
        let look = timeout(LOOK, ask(address, "isro")).await;
        look.is_ok_and(|said| said.is_ok_and(|said| said == "rw"))
    };
    until_up(process, folder, LIMIT, answers).await
}

async fn ask(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(command.as_bytes()).await?;
    let mut said = String::new();
    connection.read_to_string(&mut said).await?;
    Ok(said)
}

fn launch(folder: &Path) -> Tethered {
    require("java", "default-jre-headless", "openjdk");
    let is_there = |jars: &&str| Path::new(jars.trim_end_matches("/*")).exists();
    assert!(
        JARS.iter().filter(|jar| jar.contains("zookeeper")).any(is_there),
        "ZooKeeper is not installed: `apt-get install zookeeper` / `brew install zookeeper`, or run \
         `cargo xtask test`, which installs it"
    );
    let mut args = wall_clock::words(folder);
    args.push("java".to_owned());
    args.extend(owned(&JAVA));
    args.extend(owned(&["-cp", &JARS.join(":")]));
    args.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned());
    args.push(settings_path(folder));
    Tethered::start(&args[0], &args[1..], &log_path(folder))
}

fn write_settings(folder: &Path, port: u16, id: usize, more: &str) -> std::io::Result<()> {
    let data = folder.join("data");
    fs::create_dir(&data)?;
    fs::write(data.join("myid"), id.to_string())?;
    let settings = format!(
        "tickTime=100\ninitLimit=100\nsyncLimit=100\ndataDir={}\nclientPort={port}\n\
         clientPortAddress=127.0.0.1\nminSessionTimeout=200\nmaxSessionTimeout=3600000\nmaxClientCnxns=0\n\
         4lw.commands.whitelist=*\n{more}\n",
        data.display(),
    );
    fs::write(settings_path(folder), settings)
}

fn settings_path(folder: &Path) -> String {
    folder.join("zoo.cfg").display().to_string()
}
