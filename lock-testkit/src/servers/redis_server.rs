//! A Redis server of one's own.

use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::free_port;
use super::resp::{Endpoint, Reply, Session};
use crate::eventually::POLL_INTERVAL;
use crate::process::Tethered;
use crate::process::new_folder;
use crate::process::require;
use crate::process::signal;

/// A server answers within tens of milliseconds; this is for a machine that is very busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Number of ports that are tried. A port seldom is taken between the choice and the start.
const PORTS_TRIED: usize = 5;

/// A real `redis-server` with a port and a folder of its own, or what `LEASEHOLD_REDIS_SERVER` names: a
/// compatible server, such as `valkey-server`, by its name or path.
///
/// It is killed when the value is dropped, and also when the test process ends in any other way.
/// It keeps nothing on disk unless told so, lets `DEBUG` be used, and passes a replica its data
/// without delay.
#[derive(Debug)]
pub struct RedisServer {
    // Above the folder, because fields are dropped in this order.
    process: Tethered,
    endpoint: Endpoint,
    args: Vec<String>,
    folder: TempDir,
}

impl RedisServer {
    /// Arguments of a server that keeps what it answered when it is killed: each write is in the hands of the operating
    /// system before its answer.
    ///
    /// By `appendfsync everysec`, the default of Redis, writes wait in the process while a sync of the disk lasts.
    pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

    /// Starts a server on a free port of 127.0.0.1, and returns once it answers.
    ///
    /// # Panics
    /// If `redis-server` is not installed, with what to install; if it does not answer within a
    /// minute, with its log.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more arguments, such as `--requirepass x`. They go after our own, so
    /// they win.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(args: &[&str]) -> Self {
        Self::start_anew(|| owned(args)).await
    }

    /// The same with arguments that are asked for anew where a port was taken: they may hold ports as well.
    pub(crate) async fn start_anew(args: impl Fn() -> Vec<String>) -> Self {
        let folder = new_folder();
        for _ in 0..PORTS_TRIED {
            let endpoint = Endpoint::Tcp((Ipv4Addr::LOCALHOST, free_port()).into());
            let args = args();
            match launch(&endpoint, &args, folder.path()).await {
                Ok(process) => return Self { process, endpoint, args, folder },
                Err(log) if is_port_taken(&log) => {}
                Err(log) => panic!("{log}"),
            }
        }
        panic!("no free port in {PORTS_TRIED} tries");
    }

    /// Starts a server at this address of the loopback, such as one that takes over behind a name: at 127.0.0.2, with the
    /// port of its primary.
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

    /// Starts a server that we reach by a Unix socket in `folder`, wherever else it listens. The
    /// error is its log.
    pub(crate) async fn start_at_socket(folder: TempDir, args: &[&str]) -> Result<Self, String> {
        let endpoint = Endpoint::Unix(folder.path().join("redis.sock"));
        let process = launch(&endpoint, &owned(args), folder.path()).await?;
        Ok(Self { process, endpoint, args: owned(args), folder })
    }

    /// Where clients connect: `redis://127.0.0.1:…/` or `redis+unix:///…`, with the password of
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

    /// The address, as a [`Proxy`](crate::Proxy) wants it.
    ///
    /// # Panics
    /// If the server listens on a Unix socket.
    pub fn addr(&self) -> SocketAddr {
        match &self.endpoint {
            Endpoint::Tcp(address) => *address,
            Endpoint::Unix(path) => panic!("{} has no address", path.display()),
        }
    }

    /// The port.
    ///
    /// # Panics
    /// If the server listens on a Unix socket.
    pub fn port(&self) -> u16 {
        self.addr().port()
    }

    /// The port by which other servers and sentinels know it: that of TLS, if it speaks that.
    pub(crate) fn announced_port(&self) -> u16 {
        let told = value_of(&self.args, "--tls-port").and_then(|port| port.parse().ok());
        told.unwrap_or_else(|| self.port())
    }

    /// The process id; another one after [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The server's folder, where it writes what it keeps.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the server's log since it was last started.
    pub fn log(&self) -> String {
        read_log(self.folder.path())
    }

    /// Runs one command on a new connection, logged in if the server wants a password.
    ///
    /// # Panics
    /// If there is no reply within five seconds. An error reply is a [`Reply`].
    pub fn cli(&self, command: &[&str]) -> Reply {
        self.session().call(command)
    }

    /// Connects as a foreign client, logged in if the server wants a password.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub fn session(&self) -> Session {
        log_in(&self.endpoint, &self.args)
            .unwrap_or_else(|error| panic!("cannot connect to {:?}: {error}", self.endpoint))
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

    /// Kills the server if it runs and starts it again, on the same port and in the same folder.
    ///
    /// # Panics
    /// If it does not answer within a minute, with its log.
    pub async fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + LIMIT;
        loop {
            match launch(&self.endpoint, &self.args, self.folder.path()).await {
                Ok(process) => {
                    self.process = process;
                    return;
                }
                Err(log) if is_port_taken(&log) && Instant::now() < deadline => {
                    sleep(POLL_INTERVAL).await
                }
                Err(log) => panic!("{log}"),
            }
        }
    }
}

/// Starts a server and waits until it answers. The error is its log.
async fn launch(endpoint: &Endpoint, args: &[String], folder: &Path) -> Result<Tethered, String> {
    let program = program();
    require(&program, "redis-server", "redis");
    let all: Vec<_> = [arguments(endpoint, folder), args.to_vec()].concat();
    let process = Tethered::start(&program, &all, &log_path(folder));
    let deadline = Instant::now() + LIMIT;
    while !answers(endpoint, args, process.pid()) {
        if !signal::is_running(process.pid()) || Instant::now() > deadline {
            return Err(format!("{program} does not start:\n{}", read_log(folder)));
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(process)
}

/// The program that is started: another one for the tests of a server that is compatible.
fn program() -> String {
    env::var("LEASEHOLD_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Our defaults.
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

/// Returns true if our server answers commands, and not another that has the port.
fn answers(endpoint: &Endpoint, args: &[String], pid: u32) -> bool {
    let info = log_in(endpoint, args).and_then(|mut session| session.try_call(&["INFO"]));
    match info {
        // An open port is not an answer, nor is one given before the data is there.
        Ok(Reply::Text(info)) => {
            info.contains(&format!("\r\nprocess_id:{pid}\r\n"))
                && info.contains("\r\nloading:0\r\n")
        }
        // "You may not" is an answer.
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

pub(crate) fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("redis.log")
}

fn read_log(folder: &Path) -> String {
    fs::read_to_string(log_path(folder)).unwrap_or_default()
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
