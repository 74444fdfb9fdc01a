//! A reward that a family may claim once, however many of its members press the button.
//!
//! Fifteen processes, five for each of three families, claim at the same moment. Each takes the lock
//! of its family, shows its token to the fence, reads whether the family was paid, and only then
//! pays.
//!
//! `cargo run --example reward [-- --url URL]`

use std::error::Error;
use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use clap::{Parser, Subcommand};
use leasehold::file::FileFence;
use leasehold::{Fence, LockRequest, Wait};

const FAMILIES: [&str; 3] = ["Adler", "Birnbaum", "Castro"];
const MEMBERS: u32 = 5;

type Failure = Box<dyn Error + Send + Sync>;

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
    Claim { family: String, member: String, office: PathBuf },
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    match (args.url, args.role) {
        (Some(url), Some(Role::Claim { family, member, office })) => {
            println!("{}", claim(&url, &family, &member, &office).await?);
            Ok(())
        }
        (url, _) => open_the_office(url),
    }
}

/// Claims the reward of `family`, and says what came of it.
async fn claim(url: &str, family: &str, member: &str, office: &Path) -> Result<String, Failure> {
    let locks = leasehold::connect(url).await?;
    // One lock and one fence for each family: the others do not wait for it.
    let fence = FileFence::open(office.join(format!("{family}.fence")))?;
    let paid = office.join(format!("{family}.paid"));
    let request = LockRequest::new(format!("reward:{family}"))
        .wait(Wait::AtMost(Duration::from_secs(30)))
        .label(member);

    let guard = locks.acquire(request).await?;
    let token = guard.token();
    // First the token, then the read: from here on no earlier holder can pay, so what is read stays
    // true until it is written.
    fence.advance(token).await?;
    let outcome = match read_to_string(&paid) {
        Ok(receipt) => format!("{member}: too late, {receipt}"),
        Err(_) => {
            let receipt = format!("paid to {member} under token {token}");
            // Checked once more, in one step with the write. A payment that another system makes
            // is sent the token as well, and that system keeps the fence.
            fence.write(token, &paid, receipt.as_bytes()).await?;
            log(office, &format!("{receipt}\n"))?;
            format!("{member}: {receipt}")
        }
    };
    guard.release().await?;
    Ok(outcome)
}

/// Lets all claim at once, and counts the payments.
fn open_the_office(url: Option<String>) -> Result<(), Failure> {
    let home = tempfile::tempdir()?;
    let office = home.path();
    let url = url.unwrap_or_else(|| format!("file:{}", office.join("locks").display()));
    let claimants = FAMILIES.iter().flat_map(|family| (1..=MEMBERS).map(move |n| (family, n)));
    let claimants: Vec<Child> = claimants
        .map(|(family, n)| start(&url, family, &format!("{family} {n}"), office))
        .collect::<Result<_, _>>()?;
    for mut claimant in claimants {
        if !claimant.wait()?.success() {
            return Err("a claimant failed".into());
        }
    }
    let payments = read_to_string(office.join("payments.log"))?.lines().count();
    println!("\n{payments} payments to {} families", FAMILIES.len());
    match payments == FAMILIES.len() {
        true => Ok(()),
        false => Err("a family was paid twice, or not at all".into()),
    }
}

/// Starts a process that claims: this very program, with other arguments. The URL may hold a
/// password, and arguments are read by everybody on the machine.
fn start(url: &str, family: &str, member: &str, office: &Path) -> Result<Child, Failure> {
    let mut claimant = Command::new(std::env::current_exe()?);
    claimant.args(["claim", family, member]).arg(office).env("LEASEHOLD_URL", url);
    Ok(claimant.spawn()?)
}

fn log(office: &Path, line: &str) -> Result<(), Failure> {
    let mut log = OpenOptions::new().create(true).append(true).open(office.join("payments.log"))?;
    Ok(log.write_all(line.as_bytes())?)
}
