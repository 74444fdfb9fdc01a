//! A Redis server behind TLS, with an authority of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::free_port;
use super::redis_server::{RedisServer, is_port_taken, new_folder};
use crate::process::require;

/// For one test, so a month is plenty; platforms refuse certificates that live for years.
const DAYS: &str = "30";

const PORTS_TRIED: usize = 5;

/// What the two certificates say. Ours, because the system's own file differs between systems.
const CONFIG: &str = "\
[req]
distinguished_name = nobody
[nobody]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

/// A [`RedisServer`] that speaks TLS only, to clients that trust [`ca_path`](Self::ca_path).
#[derive(Debug)]
pub struct TlsRedis {
    server: RedisServer,
    port: u16,
}

impl TlsRedis {
    /// Makes an authority and a certificate for `localhost` and 127.0.0.1, and starts a server.
    ///
    /// # Panics
    /// If `redis-server` or `openssl` is not installed, or the server was built without TLS; if it
    /// does not answer within ten seconds, with its log.
    pub async fn start() -> Self {
        for _ in 0..PORTS_TRIED {
            let port = free_port();
            match start_on(port).await {
                Ok(server) => return Self { server, port },
                Err(log) if is_port_taken(&log) => {}
                Err(log) => panic!("{}{log}", without_tls(&log)),
            }
        }
        panic!("no free port in {PORTS_TRIED} tries");
    }

    /// Where clients connect: `rediss://localhost:…/`.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.port)
    }

    /// The port that speaks TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authority's certificate, a PEM file.
    pub fn ca_path(&self) -> PathBuf {
        self.server.folder().join("ca.crt")
    }

    /// The server behind it, to look into or to disturb. We reach it by a Unix socket, so its URL is
    /// that socket's, and its `cli` needs no TLS.
    pub fn server(&mut self) -> &mut RedisServer {
        &mut self.server
    }
}

async fn start_on(port: u16) -> Result<RedisServer, String> {
    let folder = new_folder();
    make_certificates(folder.path());
    let file = |name| folder.path().join(name).display().to_string();
    let (port, certificate, key, ca) =
        (port.to_string(), file("server.crt"), file("server.key"), file("ca.crt"));
    let mut args = vec!["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"];
    args.extend(["--tls-cert-file", &certificate, "--tls-key-file", &key]);
    args.extend(["--tls-ca-cert-file", &ca]);
    RedisServer::start_at_socket(folder, &args).await
}

fn without_tls(log: &str) -> &'static str {
    match log.contains("tls-port") && log.contains("Bad directive") {
        true => "this redis-server was built without TLS; install one with it\n",
        false => "",
    }
}

/// Makes `ca.crt`, `server.crt` and `server.key` in `folder`.
pub(crate) fn make_certificates(folder: &Path) {
    require("openssl", "openssl", "openssl");
    fs::write(folder.join("openssl.cnf"), CONFIG).expect("the folder can be written");
    let authority = "req -x509 -newkey rsa:2048 -nodes -subj /CN=Leasehold-tests \
                     -extensions authority -keyout ca.key -out ca.crt -config openssl.cnf -days";
    let request = "req -new -newkey rsa:2048 -nodes -subj /CN=localhost \
                   -keyout server.key -out server.csr -config openssl.cnf";
    let certificate = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -set_serial 2 \
                       -extfile openssl.cnf -extensions server -out server.crt -days";
    openssl(folder, &format!("{authority} {DAYS}"));
    openssl(folder, request);
    openssl(folder, &format!("{certificate} {DAYS}"));
}

fn openssl(folder: &Path, args: &str) {
    let output = Command::new("openssl")
        .args(args.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("openssl can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args}: {said}");
}
