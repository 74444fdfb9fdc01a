//! A lock under load while one server of three fails, as a table.

use std::time::Duration;

use lock_testkit::RedisServer;

use crate::load::{Load, Row, table};
use crate::set::Set;
use crate::support::{fresh_name, patient};

/// Fate of the server.
#[derive(Clone, Copy)]
enum Failure {
    Killed,
    RestartedEmpty,
    Stopped,
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "it is killed",
            Self::RestartedEmpty => "it restarts without its data",
            Self::Stopped => "it is stopped",
        }
    }

    async fn befall(self, server: &mut RedisServer) {
        match self {
            Self::Killed => server.kill(),
            Self::RestartedEmpty => server.restart().await,
            Self::Stopped => server.stop(),
        }
    }
}

/// Acquires locks before the failure, during it, and until all servers that can vote do so; one hold outlives all
/// of it.
async fn under_load(failure: Failure) -> Row {
    let mut set = Set::of(3).await;
    let holder = set.client().await;
    let kept = patient(&fresh_name()).ttl(Duration::from_secs(5));
    let kept = holder.acquire(kept).await.expect("a free lock");
    let load = Load::start(failure.name(), &set.url(), &fresh_name()).await;
    load.until_granted(100).await;
    let granted = load.mark();
    failure.befall(&mut set.servers[0]).await;
    load.until_granted(granted + 50).await;
    if let Failure::RestartedEmpty = failure {
        set.until_it_votes(0).await;
        load.until_granted(granted + 100).await;
    }
    let row = load.end().await;
    kept.release().await.expect("it was held all the time");
    row
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_a_server_that_fails_under_load_repeats_no_token() {
    let mut rows = Vec::new();
    for failure in [Failure::Killed, Failure::RestartedEmpty, Failure::Stopped] {
        rows.push(under_load(failure).await);
    }
    println!("{}", table("Quorum: what becomes of one server of three", &rows));
    for row in rows {
        assert_eq!((row.repeated, row.held_twice, row.told_lost), (0, 0, 0), "{row:?}");
        assert!(row.after > row.before, "{row:?}");
    }
}
