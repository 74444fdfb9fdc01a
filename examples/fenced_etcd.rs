//! A worker on etcd is stopped for longer than its lease lasts, and comes back as if nothing had
//! been: its late transaction is refused by the fence.
//!
//! ```sh
//! cargo run --features etcd --example fenced_etcd                                   # starts its own
//! cargo run --features etcd --example fenced_etcd -- --url etcd://127.0.0.1:2379/
//! ```
//!
//! Its own server needs `etcd` on the PATH. The worker is a process, and is really stopped (SIGSTOP).

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::etcd::EtcdLock;
use leasehold::{Fence, LockClient, LockRequest};
use rustix::process::{Pid, Signal, kill_process};
use test_support::EtcdServer;
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
        [] => tell(&EtcdServer::start().await.url()).await,
        _ => Err("usage: fenced_etcd [--url etcd://…]".into()),
    }
}

/// Stops a worker between its read and its write, and lets another go before.
async fn tell(url: &str) -> Result<(), Error> {
    let (mut first, mut said) = worker(url)?;
    let token = said.next_line().await?.unwrap_or_default();
    println!("first worker:  holds the lock with token {token}, has read the stock");
    let pid = first.id().and_then(|id| Pid::from_raw(id as i32)).ok_or("the worker is gone")?;
    kill_process(pid, Signal::STOP)?;
    println!("               … is stopped for longer than its TTL of {TTL:?}");

    let (mut second, mut told) = worker(url)?;
    let token = told.next_line().await?.unwrap_or_default();
    println!("second worker: holds the lock with token {token}, has read the stock");
    go_on(&mut second).await?;
    println!("second worker: {}", told.next_line().await?.unwrap_or_default());

    kill_process(pid, Signal::CONT)?;
    println!("first worker:  goes on, as if nothing had been");
    go_on(&mut first).await?;
    let outcome = said.next_line().await?.unwrap_or_default();
    println!("first worker:  {outcome}");
    first.wait().await?;
    second.wait().await?;
    if outcome.contains("stale") { Ok(()) } else { Err("the late write was let through".into()) }
}

fn worker(url: &str) -> Result<(Child, Lines<BufReader<ChildStdout>>), Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["worker", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let output = child.stdout.take().ok_or("the worker has no output")?;
    Ok((child, BufReader::new(output).lines()))
}

async fn go_on(worker: &mut Child) -> Result<(), Error> {
    let input = worker.stdin.as_mut().ok_or("the worker has no input")?;
    Ok(input.write_all(b"go on\n").await?)
}

/// Advances the fence, reads, waits for the word, and writes.
async fn work(url: &str) -> Result<(), Error> {
    let lock = EtcdLock::connect(url).await?;
    let (fence, locks) = (lock.fence(STOCK), LockClient::new(lock));
    let guard = locks.acquire(LockRequest::new(STOCK).ttl(TTL)).await?;
    let token = guard.token();
    fence.advance(token).await?;
    println!("{token}");
    let mut word = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut word).await?;
    match fence.set(token, STOCK, format!("sold under token {token}")).await {
        Ok(()) => println!("its write is accepted"),
        Err(refused) if refused.is_stale() => println!("its write is refused: {refused}"),
        Err(error) => return Err(error.into()),
    }
    let _ = guard.release().await;
    Ok(())
}
