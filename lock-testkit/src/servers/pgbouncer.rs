//! A transaction pooler in front of a Postgres server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::launched::{log_path, until_up};
use super::postgres_server::PostgresServer;
use super::postgres_server::{as_someone_else, folder_of_the_user};
use super::{free_port, on_free_ports};
use crate::process::Tethered;

/// Limit for a very busy machine; pgbouncer answers within tens of milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A real `pgbouncer` in transaction mode. Two statements of a client may run in two sessions of the server, so a
/// setting or a LISTEN of one statement is lost to the next.
///
/// The pooler ends when the value is dropped. It also ends with the test process, however that ends.
#[derive(Debug)]
pub struct PgBouncer {
    // The process comes before the folder, because fields are dropped in this order.
    _process: Tethered,
    port: u16,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a pooler in front of `server`, with at most 20 connections to it.
    ///
    /// # Panics
    /// If `pgbouncer` is not installed (the message says how to install it), or if it does not answer within a
    /// minute (the message has its log).
    pub async fn start(server: &PostgresServer) -> Self {
        Self::start_with(server, &[]).await
    }

    /// Starts a pooler with more settings, such as `default_pool_size = 2`. They come after the default ones, and
    /// override them.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_with(server: &PostgresServer, more: &[&str]) -> Self {
        on_free_ports(|| async {
            let (folder, port) = (folder_of_the_user(), free_port());
            fs::write(
                folder.path().join("pgbouncer.ini"),
                settings(server, port) + &more.join("\n"),
            )
            .expect("the settings are written");
            let command = as_someone_else(program());
            let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
            let settings = folder.path().join("pgbouncer.ini").display().to_string();
            let args: Vec<String> = args.chain([settings]).collect();
            let program = command.get_program().to_string_lossy().into_owned();
            let process = Tethered::start(&program, &args, &log_path(folder.path()));
            let listens =
                || async { TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() };
            until_up(&process, folder.path(), LIMIT, listens).await?;
            Ok(Self { _process: process, port, _folder: folder })
        })
        .await
    }

    /// Returns the URL for clients: `postgres://postgres@127.0.0.1:…/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

fn settings(server: &PostgresServer, port: u16) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = 20\n\
         max_client_conn = 1000\n\
         ignore_startup_parameters = extra_float_digits,options\n",
        server.port()
    )
}

/// Returns the path of the program. Debian puts it in a folder that only root has in its path.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = places.map(|folder| folder.join("pgbouncer")).find(|place| place.is_file());
    found.expect(
        "pgbouncer is not installed: `apt-get install pgbouncer` / `brew install pgbouncer`, or \
         run `cargo xtask test`, which installs it",
    )
}
