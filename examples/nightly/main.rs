//! A nightly job on several hosts: all start it at the same time, one host does it, and the others see that it is
//! done.
//!
//! On the second night the host that does the job dies in the middle, and another host takes over after the
//! lease. A run that succeeded is recorded beside the lock, under its token. So the job is *recorded* once a
//! night; nothing more is promised: the work of a host before its death stays done. Make each step of a real job
//! repeatable, or send the token along with it.
//!
//! `cargo run -p nightly [-- --url URL]`

use std::error::Error;
use std::fs::{OpenOptions, read_to_string};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Parser, Subcommand};
use leasehold::{LockClient, OnceOutcome};
use tokio::time::sleep;

const HOSTS: u32 = 4;

/// Time after which another host takes over.
const LEASE: Duration = Duration::from_secs(2);

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// URL of the locks; by default a new directory.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    url: Option<String>,
    #[command(subcommand)]
    role: Option<Role>,
}

/// Roles of the processes.
#[derive(Subcommand)]
enum Role {
    #[command(hide = true)]
    Host(Host),
}

/// One host on one night: a separate process.
#[derive(clap::Args)]
struct Host {
    number: u32,
    office: PathBuf,
    night: String,
    /// The first host that does the job dies in the middle.
    #[arg(long)]
    outage: bool,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    match (args.url, args.role) {
        (Some(url), Some(Role::Host(host))) => {
            host.once_a_night(&leasehold::connect(&url).await?).await
        }
        (url, _) => two_nights(url),
    }
}

impl Host {
    /// Retries while another host does the job, since that host may die.
    async fn once_a_night(&self, locks: &LockClient) -> Result<(), Failure> {
        // Several offices may share a server.
        let office = self.office.file_name().unwrap_or_default().to_string_lossy();
        let job = locks.once(format!("nightly:{office}")).ttl(LEASE).occurrence(&self.night);
        let job = job.label(format!("host {}", self.number)).remember(10 * LEASE);
        loop {
            match job.clone().try_run(async |_| self.job().await).await? {
                OnceOutcome::Ran(done) => {
                    done.into_result()?;
                    return Ok(self.note("has done it")?);
                }
                OnceOutcome::Done(_) => return Ok(self.note("sees that it is done")?),
                OnceOutcome::Skipped(_) => sleep(LEASE / 20).await,
            }
        }
    }

    async fn job(&self) -> Result<(), Failure> {
        self.note("begins")?;
        sleep(LEASE / 10).await;
        let first =
            || OpenOptions::new().write(true).create_new(true).open(self.office.join("outage"));
        if self.outage && first().is_ok() {
            self.note("dies")?;
            std::process::exit(1);
        }
        Ok(())
    }

    fn note(&self, what: &str) -> io::Result<()> {
        let line = format!("{}: host {} {what}\n", self.night, self.number);
        print!("{line}");
        let mut log = OpenOptions::new().create(true).append(true).open(log(&self.office))?;
        log.write_all(line.as_bytes())
    }
}

fn log(office: &Path) -> PathBuf {
    office.join("nightly.log")
}

/// Plays two nights of all hosts, and checks the log after them.
fn two_nights(url: Option<String>) -> Result<(), Failure> {
    let home = tempfile::tempdir()?;
    let office = home.path();
    let url = url.unwrap_or_else(|| format!("file:{}", office.join("locks").display()));
    night(&url, office, &["Monday"])?;
    night(&url, office, &["Tuesday", "--outage"])?;

    let log = read_to_string(log(office))?;
    let count = |what: &str| log.lines().filter(|line| line.ends_with(what)).count();
    let (begun, done, seen) =
        (count("begins"), count("has done it"), count("sees that it is done"));
    println!(
        "\nbegun {begun} times, done {done} times in 2 nights; {seen} hosts saw that it was done"
    );
    match (begun, done, seen) {
        (3, 2, 5) => Ok(()),
        _ => Err("expected 3 beginnings (one died), 2 ends and 5 that saw it".into()),
    }
}

/// Starts the job on all hosts at the same time, and waits for them. The URL goes through the environment: it may
/// hold a password, and everybody on the machine can read arguments.
fn night(url: &str, office: &Path, night: &[&str]) -> Result<(), Failure> {
    let start = |host: u32| {
        let mut process = Command::new(std::env::current_exe()?);
        process.args(["host", &host.to_string()]).arg(office).args(night);
        process.env("LEASEHOLD_URL", url).spawn()
    };
    let hosts = (0..HOSTS).map(start).collect::<io::Result<Vec<_>>>()?;
    for mut host in hosts {
        // The host that dies has written so to the log.
        host.wait()?;
    }
    Ok(())
}
