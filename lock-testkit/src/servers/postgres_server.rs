//! A Postgres server for tests.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use super::launched::{anew, launched, log_path, read_log, until_up};
use super::redis_server::owned;
use super::wall_clock::{self, WallClock};
use super::{free_port, on_free_ports};
use crate::process::Tethered;
use crate::process::new_folder;
use crate::process::signal;

/// Limit for a very busy machine; a server answers within a second.
const LIMIT: Duration = Duration::from_secs(30);

/// Folder in which packages of several versions are installed.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Default settings. Shared memory is in files of the server's folder, so that none outlives the server.
const SETTINGS: [&str; 10] = [
    "fsync=off",
    "full_page_writes=off",
    "max_connections=400",
    "shared_buffers=16MB",
    "dynamic_shared_memory_type=mmap",
    "unix_socket_directories=",
    "listen_addresses=127.0.0.1",
    "wal_level=replica",
    "autovacuum_naptime=5s",
    "log_line_prefix=%m [%p] ",
];

/// A real `postgres` with its own port and folder, which lets everyone in as `postgres` without a password.
///
/// The server ends when the value is dropped. It also ends with the test process, however that ends. Its data
/// survives [`restart`](Self::restart). Starting takes about two seconds, so tests that can share a server do. It
/// does not wait for disks unless it is started with `fsync=on`. If the test runs as root, the server runs as the
/// user `postgres`.
#[derive(Debug)]
pub struct PostgresServer {
    // The process comes before the folder, because fields are dropped in this order.
    process: Tethered,
    port: u16,
    settings: Vec<String>,
    folder: TempDir,
}

launched!(PostgresServer);

impl PostgresServer {
    /// Starts a server on a free port of 127.0.0.1, and returns once it answers.
    ///
    /// # Panics
    /// If Postgres is not installed (the message says how to install it), or if it does not answer within 30
    /// seconds (the message has its log).
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more settings, such as `fsync=on`. They come after the default ones, and override
    /// them.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(settings: &[&str]) -> Self {
        Self::start_in(folder_of_the_user(), settings).await
    }

    /// Starts a server with a [`clock`](Self::clock) of its own on Linux; elsewhere it prints that it has none.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with_clock() -> Self {
        let folder = folder_of_the_user();
        WallClock::make_in(folder.path());
        Self::start_in(folder, &[]).await
    }

    async fn start_in(folder: TempDir, settings: &[&str]) -> Self {
        let copied = as_someone_else("cp").arg("-a").arg(new_data()).arg(data(&folder)).output();
        assert_success("cp", copied.expect("cp can be run"));
        Self::launch_on_any_port(folder, owned(settings)).await
    }

    /// Starts a standby of this server: a copy that follows it and takes no writes.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn standby(&self) -> Self {
        let folder = folder_of_the_user();
        let copied = as_user("pg_basebackup")
            .args(["-R", "-X", "stream", "-c", "fast", "-h", "127.0.0.1", "-U", "postgres"])
            .args(["-p", &self.port.to_string(), "-D"])
            .arg(data(&folder))
            .output();
        assert_success("pg_basebackup", copied.expect("pg_basebackup can be run"));
        Self::launch_on_any_port(folder, self.settings.clone()).await
    }

    async fn launch_on_any_port(folder: TempDir, settings: Vec<String>) -> Self {
        let (process, port) = on_free_ports(|| async {
            let port = free_port();
            Ok((launch(port, &settings, folder.path()).await?, port))
        })
        .await;
        Self { process, port, settings, folder }
    }

    /// Returns the URL for clients: `postgres://postgres@127.0.0.1:…/postgres`.
    pub fn url(&self) -> String {
        self.url_as("postgres", "postgres")
    }

    /// Returns the URL of a database for another user (`name` or `name:password`).
    pub fn url_as(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the address for clients, such as for a [`Proxy`](crate::Proxy).
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder of the server's data and settings.
    pub fn folder(&self) -> PathBuf {
        data(&self.folder)
    }

    /// Runs SQL as `postgres` and returns the output: one line per row, columns separated by `|`.
    ///
    /// # Panics
    /// If it fails; the message has the error of `psql`.
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL as `postgres`; the error is that of `psql`.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        psql(self.port, sql)
    }

    /// Requires a password (SCRAM) from now on, except for the user `postgres`.
    ///
    /// # Panics
    /// If the server does not take the new rules.
    pub fn require_passwords(&self) {
        let rules = "host all postgres 127.0.0.1/32 trust\n\
                     host replication postgres 127.0.0.1/32 trust\n\
                     host all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(self.folder().join("pg_hba.conf"), rules).expect("the rules are written");
        self.psql("SELECT pg_reload_conf()");
    }

    /// Stops all processes of the server (SIGSTOP): connections stay open, and it answers nothing.
    pub fn stop(&self) {
        // Stops the parent first, since it could start more processes.
        signal::stop(self.pid());
        children(self.pid())
            .into_iter()
            .filter(|pid| signal::is_running(*pid))
            .for_each(signal::stop);
    }

    /// Continues a stopped server (SIGCONT).
    pub fn cont(&self) {
        children(self.pid())
            .into_iter()
            .filter(|pid| signal::is_running(*pid))
            .for_each(signal::cont);
        signal::cont(self.pid());
    }

    /// Kills all processes of the server (SIGKILL), also stopped ones, like a crash of its machine; they have
    /// ended when this returns.
    pub fn kill(&mut self) {
        let mut family = vec![self.pid()];
        signal::stop(self.pid());
        family.extend(children(self.pid()));
        family.into_iter().for_each(signal::kill);
        self.process.end();
    }

    /// Ends the server at once without a checkpoint (SIGQUIT), like `pg_ctl -m immediate stop`.
    pub fn stop_immediately(&mut self) {
        self.process.end();
    }

    /// Ends the server at once if it runs, and starts it again on the same port with its data.
    ///
    /// # Panics
    /// If it does not answer within 30 seconds; the message has its log.
    pub async fn restart(&mut self) {
        self.stop_immediately();
        let start = || launch(self.port, &self.settings, self.folder.path());
        self.process = anew(LIMIT, start).await;
    }
}

/// Starts a server and waits until it answers. The error is its log.
async fn launch(port: u16, settings: &[String], folder: &Path) -> Result<Tethered, String> {
    let clock = wall_clock::words(folder);
    let command = match clock.split_first() {
        None => as_user("postgres"),
        Some((env, words)) => {
            let mut command = as_someone_else(env);
            command.args(words).arg(program("postgres"));
            command
        }
    };
    let mut args: Vec<String> =
        command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    args.extend(["-D".to_owned(), folder.join("data").display().to_string()]);
    args.extend(["-p".to_owned(), port.to_string()]);
    for setting in owned(&SETTINGS).iter().chain(settings) {
        args.extend(["-c".to_owned(), setting.clone()]);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let process = Tethered::start_family(&program, &args, &log_path(folder));
    until_up(&process, folder, LIMIT, || async { answers(port, folder) }).await?;
    Ok(process)
}

/// Returns true if this server answers, and not another that took the port.
fn answers(port: u16, folder: &Path) -> bool {
    let ready = read_log(folder).contains("ready to accept");
    ready
        && psql(port, "SHOW data_directory")
            .is_ok_and(|data| Path::new(data.trim()) == folder.join("data"))
}

fn psql(port: u16, sql: &str) -> Result<String, String> {
    let output = Command::new(program("psql"))
        .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"])
        .args(["-p", &port.to_string(), "-d", "postgres", "-c", sql])
        .output()
        .expect("psql can be run");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Returns the path of a Postgres program: from the folder on the path, otherwise from the newest package.
///
/// # Panics
/// If there is none; the message says how to install it.
pub(crate) fn program(name: &str) -> PathBuf {
    let mut versions: Vec<_> = fs::read_dir(VERSIONS).into_iter().flatten().flatten().collect();
    versions.sort_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().ok());
    let mut packaged = versions.into_iter().rev().map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let complete =
        |folder: &PathBuf| folder.join("initdb").is_file() && folder.join(name).is_file();
    let found = std::env::split_paths(&path).find(complete).or_else(|| packaged.find(complete));
    found.map(|folder| folder.join(name)).unwrap_or_else(|| {
        panic!(
            "{name} is not installed: `apt-get install postgresql` / `brew install postgresql`, \
             or run `cargo xtask test`, which installs it"
        )
    })
}

/// Creates a command of Postgres, as a user that it accepts: Postgres refuses root.
fn as_user(name: &str) -> Command {
    as_someone_else(program(name))
}

/// Creates a command; if the test runs as root, the command runs as the user `postgres`.
pub(crate) fn as_someone_else(program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

/// Creates a folder that belongs to the user of [`as_someone_else`].
pub(crate) fn folder_of_the_user() -> TempDir {
    let folder = new_folder();
    if rustix::process::geteuid().is_root() {
        let id = |flag| {
            let output = Command::new("id").args([flag, "postgres"]).output();
            let output = output.expect("id can be run").stdout;
            let id = String::from_utf8_lossy(&output).trim().parse::<u32>();
            id.expect("there is a user postgres, which the package makes")
        };
        chown(folder.path(), Some(id("-u")), Some(id("-g"))).expect("root may give away");
    }
    folder
}

/// Returns the data of a new server, as small as they can be. They are made once for all servers of this process, since
/// that takes a second.
fn new_data() -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    data(FOLDER.get_or_init(|| {
        let folder = folder_of_the_user();
        let options = "-A trust -U postgres -E UTF8 --no-locale --no-sync --wal-segsize=1";
        let options = options.split(' ');
        let made = as_user("initdb").arg("-D").arg(data(&folder)).args(options).output();
        assert_success("initdb", made.expect("initdb can be run"));
        folder
    }))
}

/// Returns the ids of the processes that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    let output = Command::new("ps").args(["-A", "-o", "pid=", "-o", "ppid="]).output();
    let listing = String::from_utf8_lossy(&output.expect("ps can be run").stdout).into_owned();
    let child = |line: &str| {
        let mut ids = line.split_whitespace().map(str::parse::<u32>);
        let (pid, of) = (ids.next()?.ok()?, ids.next()?.ok()?);
        (of == parent).then_some(pid)
    };
    listing.lines().filter_map(child).collect()
}

fn assert_success(what: &str, output: Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} fails:\n{said}");
}

fn data(folder: &TempDir) -> PathBuf {
    folder.path().join("data")
}
