//! A Redis sentinel.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tempfile::TempDir;

use super::free_port;
use super::resp::{Endpoint, Reply, Session};
use crate::eventually;
use crate::process::new_folder;
use crate::process::{Tethered, require};

/// Limit for a very busy machine; a sentinel answers within tens of milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A real sentinel, alone or one of several.
#[derive(Debug)]
pub struct RedisSentinel {
    // The process comes before the folder, because fields are dropped in this order.
    _process: Tethered,
    address: SocketAddr,
    tls_port: Option<u16>,
    _folder: TempDir,
}

impl RedisSentinel {
    /// Starts a sentinel that watches no primary yet, and returns once it answers.
    ///
    /// # Panics
    /// If `redis-server` is not installed, or it does not answer within a minute.
    pub async fn start() -> Self {
        let sentinel = Self::launch(None, "");
        let answers = || sentinel.try_session()?.try_call(&["PING"]);
        eventually("the sentinel answers", LIMIT, async || answers().is_ok()).await;
        sentinel
    }

    /// Makes the sentinel watch the primary at `address`, which may be a [`Proxy`](crate::Proxy). Returns the URL
    /// for clients of that primary: `redis-sentinel://127.0.0.1:…/primary-…`.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn watch(&self, address: SocketAddr) -> String {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let name = format!("primary-{host}-{port}");
        // A sentinel refuses a name that it already watches.
        self.session().call(&["SENTINEL", "MONITOR", &name, &host, &port, "1"]);
        format!("redis-sentinel://{}/{name}", self.address)
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Starts a sentinel with these settings, and with the settings for TLS if given.
    pub(super) fn launch(tls: Option<Vec<(&str, String)>>, settings: &str) -> Self {
        require("redis-server", "redis-server", "redis");
        let (folder, port) = (new_folder(), free_port());
        let mut text = format!("port {port}\nbind 127.0.0.1\ndir {}\n", folder.path().display());
        for (name, value) in tls.iter().flatten() {
            let _ = writeln!(text, "{name} {value}");
        }
        // A sentinel writes its findings into its configuration file.
        let file = folder.path().join("sentinel.conf");
        fs::write(&file, text + settings).expect("the folder can be written");
        let args = [file.display().to_string(), "--sentinel".to_owned()];
        let process = Tethered::start("redis-server", &args, &folder.path().join("sentinel.log"));
        let tls_port =
            tls.and_then(|tls| tls.iter().find(|(name, _)| *name == "tls-port")?.1.parse().ok());
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Self { _process: process, address, tls_port, _folder: folder }
    }

    /// Returns the port for clients: that of TLS, if it uses TLS.
    pub(super) fn announced_port(&self) -> u16 {
        self.tls_port.unwrap_or_else(|| self.address.port())
    }

    pub(super) fn session(&self) -> Session {
        self.try_session()
            .unwrap_or_else(|error| panic!("no sentinel at {}: {error}", self.address))
    }

    pub(super) fn try_session(&self) -> io::Result<Session> {
        Session::open(&Endpoint::Tcp(self.address))
    }

    pub(super) fn port_of_primary(&self, name: &str) -> Option<u16> {
        let told: Reply = self.session().call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]);
        told.array().get(1)?.text().parse().ok()
    }
}
