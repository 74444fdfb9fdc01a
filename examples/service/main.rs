//! What a service of several instances needs beside a mutex: one that leads, five licences for
//! all, and a catalogue that many read and one rebuilds. For a job that runs once see the example `nightly`.
//!
//! Four instances serve HTTP. They are processes of their own, and share the store of the locks and a
//! directory, as four hosts would. Each act plays against their endpoints:
//!
//! - `leader.rs`: the leader is killed, and another leads in a greater term.
//! - `licences.rs`: never more than five at once, and one that comes back late is refused by the fence of its slot.
//! - `catalogue.rs`: the catalogue is rebuilt while it is read, and nobody reads half of it.
//!
//! Beside the acts, `server.rs` and `instance.rs` are what one instance is, and `crew.rs` is how the story sees it.
//!
//! `cargo run --example service [-- --url URL]`

mod catalogue;
mod crew;
mod instance;
mod leader;
mod licences;
mod server;

use std::path::Path;

use clap::{Parser, Subcommand};

use crate::crew::{Crew, Failure};
use crate::instance::Identity;

#[derive(Parser)]
struct Args {
    /// Where the locks are; a directory of its own if it is not said.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    url: Option<String>,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What the processes do.
#[derive(Subcommand)]
enum Role {
    #[command(hide = true)]
    Instance(Identity),
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    match (args.url, args.role) {
        (Some(url), Some(Role::Instance(identity))) => server::serve(identity, &url).await,
        (url, _) => {
            let home = tempfile::tempdir()?;
            let url =
                url.unwrap_or_else(|| format!("file:{}", home.path().join("locks").display()));
            story(&url, home.path()).await
        }
    }
}

async fn story(url: &str, home: &Path) -> Result<(), Failure> {
    let mut crew = Crew::start(url, home).await?;
    leader::act(&mut crew).await?;
    licences::act(&crew, home).await?;
    catalogue::act(&crew).await?;
    crew.go_home().await
}
