//! Roles of child processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::file::FileFence;
use leasehold::{Fence, FenceError};

use super::{LOCKS, NAME, child, client, count, request, request_for, rounds, variable};

/// Acquires two locks together repeatedly, in the given order, and counts under each.
pub(super) async fn move_both_ways() {
    let (client, folder) = (client().await, PathBuf::from(variable("FOLDER")));
    let rounds = rounds();
    child::say("ready");
    let order = child::hear().await;
    let names: Vec<&str> = order.split(' ').collect();
    let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    for round in 1..=rounds {
        let guard = client.acquire_all(&names).await.expect("its turn comes");
        for file in &files {
            let seen = count(file);
            tokio::task::yield_now().await;
            std::fs::write(file, (seen + 1).to_string()).expect("written");
        }
        guard.release().await.expect("held to the end");
        if round % (rounds / 10) == 0 {
            child::say("a tenth");
        }
    }
}

/// Does a tenth of all read-modify-writes of a file, each under the lock.
pub(super) async fn increment() {
    let (client, file) = (client().await, Path::new(&variable("FOLDER")).join("count"));
    for _ in 0..rounds() / 10 {
        let guard = client.acquire(request()).await.expect("its turn comes");
        let seen = count(&file);
        tokio::task::yield_now().await;
        std::fs::write(&file, (seen + 1).to_string()).expect("written");
        guard.release().await.expect("an answer");
    }
    child::say("done");
}

/// Acquires the lock and keeps it until it is killed.
pub(super) async fn hold() {
    let guard = client().await.acquire(request()).await.expect("its turn comes");
    child::say(&guard.token().to_string());
    std::future::pending::<()>().await;
    drop(guard);
}

/// Acquires the lock repeatedly, and reports it.
pub(super) async fn wait() {
    let client = client().await;
    loop {
        let guard = client.acquire(request()).await.expect("its turn comes");
        child::say(&guard.token().to_string());
        tokio::time::sleep(Duration::from_millis(5)).await;
        // The worker may have been stopped, and have lost the lock.
        guard.release_confirmed().await.expect("an answer");
    }
}

/// Waits for many locks at once, and reports for each if it believes in it beside another holder.
pub(super) async fn wait_for_many() {
    let client = client().await;
    let waiting = (0..LOCKS).map(async |i| {
        let guard = client.acquire(request_for(&format!("{NAME}-{i}"))).await.expect("its turn");
        let holder =
            client.admin().inspect(guard.name()).await.expect("an answer").holder().cloned();
        let ours = holder.and_then(|holder| holder.token) == Some(guard.token());
        child::say(if guard.is_held() && !ours { "two holders" } else { "right" });
        // A holder that was paused may have lost the lock.
        guard.release_confirmed().await.expect("an answer");
    });
    join_all(waiting).await;
}

/// Advances the fence, reads, is paused, and writes: with and without the fence.
pub(super) async fn write_after_a_pause() {
    let folder = PathBuf::from(variable("FOLDER"));
    let guard = client().await.acquire(request()).await.expect("its turn comes");
    let fence = FileFence::open(folder.join("fence")).expect("a fence");
    fence.advance(guard.token()).await.expect("the newest");
    let seen = count(&folder.join("count"));
    child::say("read");
    // The parent stops this process here. No check before this point would notice.
    child::hear().await;
    let contents = (seen + 1).to_string();
    std::fs::write(folder.join("unfenced"), &contents).expect("written");
    let written = fence.write(guard.token(), folder.join("count"), contents.as_bytes()).await;
    child::say(match written {
        Ok(()) => "written",
        Err(FenceError::Stale { .. }) => "stale",
        Err(_) => "failed",
    });
    child::say(if guard.is_held() { "held" } else { "lost" });
}
