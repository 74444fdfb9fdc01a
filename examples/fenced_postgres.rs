//! A worker on Postgres is stopped for longer than its lease lasts, and comes back as if nothing had
//! been: its late transaction is refused as a whole.
//!
//! ```sh
//! cargo run --features postgres --example fenced_postgres                       # starts its own
//! cargo run --features postgres --example fenced_postgres -- --url postgres://localhost/test
//! ```
//!
//! Its own server needs Postgres to be installed. The worker is a process, and is really stopped
//! (SIGSTOP). On a server of yours it makes a table `leasehold_example`, and removes it.

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::postgres::PostgresLock;
use leasehold::{LockClient, LockRequest};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, Executor, PgConnection, Row};
use test_support::PostgresServer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

type Error = Box<dyn std::error::Error>;

const TTL: Duration = Duration::from_secs(2);
const STOCK: &str = "example/stock";

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [role, url] if role == "worker" => work(url).await,
        [flag, url] if flag == "--url" => tell(url).await,
        [] => tell(&PostgresServer::start().await.url()).await,
        _ => Err("usage: fenced_postgres [--url postgres://…]".into()),
    }
}

/// Stops a worker between its read and its write, and lets another go before.
async fn tell(url: &str) -> Result<(), Error> {
    let mut database = PgConnection::connect(url).await?;
    database.execute("DROP TABLE IF EXISTS leasehold_example").await?;
    database.execute("CREATE TABLE leasehold_example AS SELECT 10 AS lamps").await?;

    let (mut first, mut said) = worker(url)?;
    let token = said.next_line().await?.unwrap_or_default();
    println!("first worker:  holds the lock with token {token}");
    let pid = first.id().and_then(|id| Pid::from_raw(id as i32)).ok_or("the worker is gone")?;
    kill_process(pid, Signal::STOP)?;
    println!("               … is stopped for longer than its TTL of {TTL:?}");

    let (mut second, mut told) = worker(url)?;
    let token = told.next_line().await?.unwrap_or_default();
    println!("second worker: holds the lock with token {token}");
    go_on(&mut second).await?;
    println!("second worker: {}", told.next_line().await?.unwrap_or_default());

    kill_process(pid, Signal::CONT)?;
    println!("first worker:  goes on, as if nothing had been");
    go_on(&mut first).await?;
    let outcome = said.next_line().await?.unwrap_or_default();
    println!("first worker:  {outcome}");
    first.wait().await?;
    second.wait().await?;
    let lamps: i32 = database.fetch_one("SELECT lamps FROM leasehold_example").await?.get(0);
    println!("in stock:      {lamps}");
    database.execute("DROP TABLE leasehold_example").await?;
    match outcome.contains("stale") && lamps == 9 {
        true => Ok(()),
        false => Err("the late transaction was let through".into()),
    }
}

/// This program again, in the other role; and what it says.
fn worker(url: &str) -> Result<(Child, Lines<BufReader<ChildStdout>>), Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["worker", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let output = child.stdout.take().ok_or("the worker has no output")?;
    Ok((child, BufReader::new(output).lines()))
}

async fn go_on(worker: &mut Child) -> Result<(), Error> {
    let mut input = worker.stdin.take().ok_or("the worker was told already")?;
    Ok(input.write_all(b"go on\n").await?)
}

/// Takes the lock, waits to be told to go on, and sells a lamp: it does not look whether it still holds
/// the lock, which it could lose right after looking.
async fn work(url: &str) -> Result<(), Error> {
    let lock = PostgresLock::connect(url).await?;
    let (locks, fence) = (LockClient::new(lock.clone()), lock.fence(STOCK));
    let guard = locks.acquire(LockRequest::new(STOCK).ttl(TTL)).await?;
    println!("{}", guard.token());
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;

    let mut database = PgConnection::connect(url).await?;
    let mut transaction = database.begin().await?;
    // Advance, then read, then write.
    if let Err(stale) = fence.advance_in(&mut transaction, guard.token()).await {
        println!("is refused: {stale}");
        return Ok(());
    }
    let lamps: i32 = transaction.fetch_one("SELECT lamps FROM leasehold_example").await?.get(0);
    let sell = sqlx::query("UPDATE leasehold_example SET lamps = $1").bind(lamps - 1);
    sell.execute(&mut *transaction).await?;
    transaction.commit().await?;
    println!("sold a lamp: {} left", lamps - 1);
    guard.release().await?;
    Ok(())
}
