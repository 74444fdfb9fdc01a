//! Outcome of an input, and steps that several inputs share.

use std::process::ExitCode;

use leasehold::{LockClient, LockRequest, connect};

/// The right outcome and the seen one.
pub(crate) struct Verdict {
    right: String,
    seen: String,
    code: u8,
}

impl Verdict {
    /// Creates the verdict on an input that was tried.
    pub(crate) fn of(right: impl Into<String>, seen: impl Into<String>, is_right: bool) -> Self {
        Self { right: right.into(), seen: seen.into(), code: u8::from(!is_right) }
    }

    /// Creates the verdict on an input that cannot be tried here.
    pub(crate) fn impossible(reason: impl Into<String>) -> Self {
        Self { right: "it is tried".into(), seen: reason.into(), code: 2 }
    }

    pub(crate) fn print(self) -> ExitCode {
        println!("right: {}\nseen:  {}", self.right, self.seen);
        ExitCode::from(self.code)
    }
}

/// Acquires and releases a lock; returns its token.
pub(crate) async fn turn(client: &LockClient, name: &str) -> u64 {
    let guard = client.acquire(LockRequest::new(name)).await.expect("its turn comes");
    let token = guard.token().get();
    guard.release().await.expect("held to the end");
    token
}

/// Acquires and releases a lock in a process of its own.
pub(crate) async fn acquire_once(url: &str, name: &str) -> ExitCode {
    let client = connect(url).await.expect("a connection");
    println!("{}", turn(&client, name).await);
    client.shutdown().await;
    ExitCode::SUCCESS
}
