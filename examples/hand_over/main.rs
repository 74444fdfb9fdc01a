//! Hands a held lock to a child process, which continues under the same token.
//!
//! An exported lease is as good as the lock: everybody who has its text can extend and release the hold. So it
//! goes through the child's standard input, never through its arguments, which everybody on the machine can read.
//!
//! `cargo run -p hand_over [-- --url URL]`

use std::error::Error;
use std::io::{Write, read_to_string, stdin};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Parser;
use leasehold::{Lease, LockRequest};

const NAME: &str = "migration";

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// URL of the locks; by default a new directory.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    url: Option<String>,
    /// Take over the lock that is described on standard input: what the child does.
    #[arg(long, hide = true)]
    take_over: bool,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    match args.take_over {
        true => take_over(&read_to_string(stdin())?).await,
        false => hand_over(args.url).await,
    }
}

/// Acquires the lock, hands it to a child, and acquires it again after the child's release.
async fn hand_over(url: Option<String>) -> Result<(), Failure> {
    let home = tempfile::tempdir()?;
    let url = url.unwrap_or_else(|| format!("file:{}", home.path().join("locks").display()));
    let locks = leasehold::connect(&url).await?;

    // Nobody renews from `detach` until the child attaches: the TTL must cover the child's start.
    let request = LockRequest::new(NAME).ttl(Duration::from_secs(20)).label("parent");
    let guard = locks.acquire(request).await?;
    let token = guard.token();
    println!("parent: held under token {token}");
    let lease = guard.detach()?;
    let mut child = start(&format!("{url}\n{}", lease.export()))?;
    if locks.try_acquire(NAME).await?.is_some() {
        return Err("the lock was free while it was handed over".into());
    }
    println!("parent: handed over; the lock was never free");

    let next = locks.acquire(NAME).await?;
    println!("parent: held again under token {}, once the child had released it", next.token());
    match child.wait()?.success() && next.token() > token {
        true => next.release().await?,
        false => return Err("the child did not work under the hold of its parent".into()),
    };
    Ok(())
}

/// Starts the child, and sends it the secret.
fn start(secret: &str) -> Result<Child, Failure> {
    let mut child =
        Command::new(std::env::current_exe()?).arg("--take-over").stdin(Stdio::piped()).spawn()?;
    // The pipe is dropped at the end of the statement, which ends the child's input.
    child.stdin.take().ok_or("no pipe to the child")?.write_all(secret.as_bytes())?;
    Ok(child)
}

/// Continues the parent's hold: the same owner, the same token.
async fn take_over(secret: &str) -> Result<(), Failure> {
    let (url, lease) = secret.split_once('\n').ok_or("no lease on standard input")?;
    let locks = leasehold::connect(url).await?;
    // Asks the server: a lease from another process counts only after the server has confirmed it.
    let guard = locks.attach(Lease::import(lease)?).await?;
    println!("child: goes on under token {}, and renews it from now on", guard.token());
    guard.run(tokio::time::sleep(Duration::from_millis(300))).await?;
    guard.release().await?;
    println!("child: done, and held the lock to the end");
    Ok(())
}
