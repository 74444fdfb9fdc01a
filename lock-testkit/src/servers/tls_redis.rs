//! A Redis server behind TLS, with its own certificate authority.

use super::certificates::{Certificates, arguments};
use super::redis_server::RedisServer;
use super::{free_port, on_free_ports};
use crate::process::new_folder;

/// A [`RedisServer`] that speaks only TLS, to clients that trust the authority of [`certificates`](Self::certificates).
#[derive(Debug)]
pub struct TlsRedis {
    server: RedisServer,
    port: u16,
    certificates: Certificates,
}

impl TlsRedis {
    /// Makes an authority and a certificate for `localhost` and 127.0.0.1, and starts a server.
    ///
    /// # Panics
    /// If `redis-server` or `openssl` is not installed, or the server was built without TLS; or if it does not
    /// answer within a minute (the message has its log).
    pub async fn start() -> Self {
        Self::launch(Certificates::new(), &["--tls-auth-clients", "no"]).await
    }

    /// Starts a server that demands a certificate of each client.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_demanding(certificates: Certificates) -> Self {
        Self::launch(certificates, &[]).await
    }

    async fn launch(certificates: Certificates, args: &[&str]) -> Self {
        let (server, port) = on_free_ports(|| async {
            let port = free_port();
            let server = start_on(port, &certificates, args).await;
            server.map(|server| (server, port)).map_err(|log| without_tls(&log).to_owned() + &log)
        })
        .await;
        Self { server, port, certificates }
    }

    /// Returns the URL for clients: `rediss://localhost:…/`.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.port)
    }

    /// Returns the port that speaks TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the certificates of the server, and of its clients.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Returns the server behind TLS, to inspect or to disturb. Tests reach it by a Unix socket: its URL names
    /// the socket, and its `cli` needs no TLS.
    pub fn server(&mut self) -> &mut RedisServer {
        &mut self.server
    }
}

async fn start_on(
    port: u16,
    certificates: &Certificates,
    args: &[&str],
) -> Result<RedisServer, String> {
    let tls = arguments(&certificates.settings(port));
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let args = [&["--port", "0"], &tls[..], args].concat();
    RedisServer::start_at_socket(new_folder(), &args).await
}

fn without_tls(log: &str) -> &'static str {
    match log.contains("tls-port") && log.contains("Bad directive") {
        true => "this redis-server was built without TLS; install one with it\n",
        false => "",
    }
}
