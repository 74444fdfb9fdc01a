//! One client's wrong wall clock spoils the tokens of a whole root for good.

use std::env;
use std::process::Command;

use leasehold::connect;
use lock_testkit::{EtcdServer, ZooKeeperServer};

use crate::verdict::{Verdict, turn};

/// An hour, in the microseconds of tokens.
const HOUR: u64 = 3_600_000_000;

pub(crate) async fn run() -> Verdict {
    if Command::new("faketime").arg("--version").output().is_err() {
        return Verdict::impossible("faketime is not installed: `apt-get install faketime`");
    }
    let (etcd, zookeeper) = (EtcdServer::start().await, ZooKeeperServer::start().await);
    let (mut seen, mut is_right) = (Vec::new(), true);
    for url in [etcd.url(), zookeeper.url()] {
        let before = turn(&connect(&url).await.expect("a connection"), "a").await;
        for year in ["2031", "2300"] {
            // A client whose clock is wrong uses another lock once.
            let role = ["acquire-once", &url, "other"];
            let ahead = Command::new("faketime")
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .arg(format!("{year}-01-01 00:00:00"))
                .arg(env::current_exe().expect("this program has a path"))
                .args(role)
                .output();
            assert!(ahead.is_ok(), "faketime runs");
            let after = match connect(&url).await {
                Ok(client) => match client.acquire("a").await {
                    Ok(guard) => Ok(guard.token().get()),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            is_right &= after.as_ref().is_ok_and(|after| *after < before + HOUR);
            let after = match after {
                Ok(after) => format!("the tokens are {} hours further", (after - before) / HOUR),
                Err(error) => error.to_string(),
            };
            let (scheme, _) = url.split_once(':').unwrap_or_default();
            seen.push(format!("{scheme}, after a client of {year}: {after}"));
        }
    }
    Verdict::of("the tokens stay near the server's time", seen.join("; "), is_right)
}
