//! A Redis server for tests.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::launched::{anew, launched, log_path, until_up};
use super::resp::{Endpoint, Reply, Session};
use super::wall_clock::{self, WallClock};
use super::{free_port, on_free_ports};
use crate::process::Tethered;
use crate::process::new_folder;
use crate::process::require;

/// Limit for a very busy machine; a server answers within tens of milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A real `redis-server` with its own port and folder. `LEASEHOLD_REDIS_SERVER` replaces it by the name or path
/// of a compatible server, such as `valkey-server`.
///
/// Dropping the value kills the server. It also ends with the test process, however that ends. By default it
/// keeps nothing on disk, allows `DEBUG`, and sends a replica its data without delay.
#[derive(Debug)]
pub struct RedisServer {
    // The process comes before the folder, because fields are dropped in this order.
    process: Tethered,
    endpoint: Endpoint,
    args: Vec<String>,
    folder: TempDir,
}

launched!(RedisServer, alone);

impl RedisServer {
    /// Arguments of a server that keeps each write that it answered, even if it is killed: the operating system
    /// has the write before the answer.
    ///
    /// With `appendfsync everysec`, the default of Redis, writes wait in the process during a sync of the disk.
    pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

    /// Starts a server on a free port of 127.0.0.1, and returns once it answers.
    ///
    /// # Panics
    /// If `redis-server` is not installed (the message says how to install it), or if it does not answer within a
    /// minute (the message has its log).
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more arguments, such as `--requirepass x`. They come after the default ones, and
    /// override them.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(args: &[&str]) -> Self {
        Self::start_anew(|| owned(args)).await
    }

    /// Starts a server with a [`clock`](Self::clock) of its own on Linux; elsewhere it prints that it has none.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with_clock(args: &[&str]) -> Self {
        let folder = new_folder();
        WallClock::make_in(folder.path());
        Self::start_in(folder, || owned(args)).await
    }

    /// Like [`start_with`](Self::start_with), but calls `args` again for each try with a new port: the arguments
    /// may contain ports as well.
    pub(crate) async fn start_anew(args: impl Fn() -> Vec<String>) -> Self {
        Self::start_in(new_folder(), args).await
    }

    async fn start_in(folder: TempDir, args: impl Fn() -> Vec<String>) -> Self {
        let (process, endpoint, args) = on_free_ports(|| async {
            let endpoint = Endpoint::Tcp((Ipv4Addr::LOCALHOST, free_port()).into());
            let args = args();
            Ok((launch(&endpoint, &args, folder.path()).await?, endpoint, args))
        })
        .await;
        Self { process, endpoint, args, folder }
    }

    /// Starts a server at this loopback address, such as 127.0.0.2 with the port of a primary, to take over its
    /// name.
    ///
    /// # Panics
    /// As [`start`](Self::start), and if the address is taken.
    pub async fn start_at(address: SocketAddr, args: &[&str]) -> Self {
        let (folder, endpoint) = (new_folder(), Endpoint::Tcp(address));
        let process = launch(&endpoint, &owned(args), folder.path()).await;
        let process = process.unwrap_or_else(|log| panic!("{log}"));
        Self { process, endpoint, args: owned(args), folder }
    }

    /// Starts a server that listens on a Unix socket only.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_unix() -> Self {
        Self::start_at_socket(new_folder(), &["--port", "0"])
            .await
            .unwrap_or_else(|log| panic!("{log}"))
    }

    /// Starts a server that tests reach by a Unix socket in `folder`, whatever else it listens on. The error is
    /// its log.
    pub(crate) async fn start_at_socket(folder: TempDir, args: &[&str]) -> Result<Self, String> {
        let endpoint = Endpoint::Unix(folder.path().join("redis.sock"));
        let process = launch(&endpoint, &owned(args), folder.path()).await?;
        Ok(Self { process, endpoint, args: owned(args), folder })
    }

    /// Returns the URL for clients: `redis://127.0.0.1:…/` or `redis+unix:///…`, with the password of
    /// `--requirepass` if there is one.
    pub fn url(&self) -> String {
        match (&self.endpoint, password(&self.args)) {
            (Endpoint::Tcp(address), None) => format!("redis://{address}/"),
            (Endpoint::Tcp(address), Some(password)) => format!("redis://:{password}@{address}/"),
            (Endpoint::Unix(path), None) => format!("redis+unix://{}", path.display()),
            (Endpoint::Unix(path), Some(password)) => {
                format!("redis+unix://{}?pass={password}", path.display())
            }
        }
    }

    /// Returns the address for clients, such as for a [`Proxy`](crate::Proxy).
    ///
    /// # Panics
    /// If the server listens on a Unix socket.
    pub fn addr(&self) -> SocketAddr {
        match &self.endpoint {
            Endpoint::Tcp(address) => *address,
            Endpoint::Unix(path) => panic!("{} has no address", path.display()),
        }
    }

    /// Returns the port for clients.
    ///
    /// # Panics
    /// If the server listens on a Unix socket.
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// Returns the port for other servers and sentinels: that of TLS, if it uses TLS.
    pub(crate) fn announced_port(&self) -> u16 {
        let told = value_of(&self.args, "--tls-port").and_then(|port| port.parse().ok());
        told.unwrap_or_else(|| self.port())
    }

    /// Runs one command on a new connection, logged in if the server requires a password.
    ///
    /// # Panics
    /// If there is no reply within five seconds. An error reply is a [`Reply`].
    pub fn cli(&self, command: &[&str]) -> Reply {
        self.session().call(command)
    }

    /// Connects as a foreign client, logged in if the server requires a password.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn session(&self) -> Session {
        log_in(&self.endpoint, &self.args)
            .unwrap_or_else(|error| panic!("cannot connect to {:?}: {error}", self.endpoint))
    }

    /// Kills the server if it runs and starts it again, on the same port and in the same folder.
    ///
    /// # Panics
    /// If it does not answer within a minute; the message has its log.
    pub async fn restart(&mut self) {
        self.kill();
        let start = || launch(&self.endpoint, &self.args, self.folder.path());
        self.process = anew(LIMIT, start).await;
    }
}

/// Starts a server and waits until it answers. The error is its log.
async fn launch(endpoint: &Endpoint, args: &[String], folder: &Path) -> Result<Tethered, String> {
    let program = program();
    require(&program, "redis-server", "redis");
    let clock = wall_clock::words(folder);
    let all = [clock, vec![program.clone()], arguments(endpoint, folder), args.to_vec()].concat();
    let process = Tethered::start(&all[0], &all[1..], &log_path(folder));
    until_up(&process, folder, LIMIT, || async { answers(endpoint, args, process.pid()) }).await?;
    Ok(process)
}

/// Returns the program to start; the variable names a compatible server.
fn program() -> String {
    env::var("LEASEHOLD_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Returns the default arguments.
fn arguments(endpoint: &Endpoint, folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let host = match endpoint {
        Endpoint::Tcp(address) => address.ip(),
        Endpoint::Unix(_) => Ipv4Addr::LOCALHOST.into(),
    };
    let mut args = owned(&["--dir", &folder, "--bind", &host.to_string(), "--save", ""]);
    args.extend(owned(&["--appendonly", "no", "--repl-diskless-sync-delay", "0"]));
    args.extend(match endpoint {
        Endpoint::Tcp(address) => owned(&["--port", &address.port().to_string()]),
        Endpoint::Unix(path) => owned(&["--unixsocket", &path.display().to_string()]),
    });
    args
}

/// Returns true if this server answers commands, and not another that took the port.
fn answers(endpoint: &Endpoint, args: &[String], pid: u32) -> bool {
    let info = log_in(endpoint, args).and_then(|mut session| session.try_call(&["INFO"]));
    match info {
        // An open port is no answer yet, and neither is a reply while the server loads its data.
        Ok(Reply::Text(info)) => {
            info.contains(&format!("\r\nprocess_id:{pid}\r\n"))
                && info.contains("\r\nloading:0\r\n")
        }
        // A refusal for lack of rights is an answer.
        Ok(Reply::Error(error)) => error.starts_with("NOAUTH") || error.starts_with("NOPERM"),
        _ => false,
    }
}

fn log_in(endpoint: &Endpoint, args: &[String]) -> io::Result<Session> {
    let mut session = Session::open(endpoint)?;
    if let Some(password) = password(args) {
        session.try_call(&["AUTH", password])?;
    }
    Ok(session)
}

fn password(args: &[String]) -> Option<&str> {
    value_of(args, "--requirepass")
}

fn value_of<'a>(args: &'a [String], argument: &str) -> Option<&'a str> {
    let mut words = args.iter().skip_while(|word| *word != argument);
    words.nth(1).map(String::as_str)
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
