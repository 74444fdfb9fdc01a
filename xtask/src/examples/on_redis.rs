//! Runs the examples that take a URL on a real Redis server, and the flash sale on other servers.

use std::time::Duration;

use lock_testkit::{RedisCluster, RedisSentinels, RedisServer, Session, ZooKeeperServer};
use tokio::runtime::Builder;

use super::example::{Example, URL};
use crate::step::{self, Done, Failure};

/// Size of the sale on real servers; a quorum is slow with many waiters.
const SMALL: &[&str] = &["--workers", "2", "--tasks", "2", "--items", "10", "--buyers", "50"];
/// Long enough that a pause of the machine never causes a failover.
const NEVER_REPLACED: Duration = Duration::from_secs(60);

/// Runs all examples that take a URL, one after the other on the same server: none may need an empty one. The
/// server ends with this function, and also if this process is killed.
pub(super) fn run(examples: &[Example]) -> Done {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = runtime.block_on(RedisServer::start());
    let mut session = server.session();
    for example in examples {
        if example.takes_url {
            run_at(&server.url(), example, &mut session)?;
        }
    }
    sell_on_several(examples)
}

/// Runs a small flash sale on a cluster, on the primary that sentinels name, on ZooKeeper and on a quorum.
fn sell_on_several(examples: &[Example]) -> Done {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let cluster = runtime.block_on(RedisCluster::start(NEVER_REPLACED));
    let sentinels = runtime.block_on(RedisSentinels::start(NEVER_REPLACED));
    let zookeeper = runtime.block_on(ZooKeeperServer::start());
    let quorum = [(); 3].map(|()| runtime.block_on(RedisServer::start()));
    let sale = super::named(examples, "flash_sale")?;
    let [a, b, c] = quorum.each_ref().map(RedisServer::addr);
    let quorum = format!("redis-quorum://{a},{b},{c}");
    let urls = [cluster.url(), sentinels.url(), zookeeper.url(), quorum];
    urls.iter().try_for_each(|url| step::run(sale.command().args(SMALL).env(URL, url)))
}

fn run_at(url: &str, example: &Example, session: &mut Session) -> Done {
    let (name, before) = (&example.name, connections(session));
    let size = if name == "flash_sale" { SMALL } else { &[] };
    step::run(example.command().args(size).env(URL, url))?;
    if connections(session) == before {
        return Err(Failure::new(format!("{name} did not connect to the server of {URL}")));
    }
    match locks(session) {
        none if none.is_empty() => Ok(()),
        left => Err(Failure::new(format!("{name} left locks behind: {}", left.join(", ")))),
    }
}

/// Returns the number of clients that ever connected.
fn connections(session: &mut Session) -> Option<u64> {
    let info = session.call(&["INFO", "stats"]);
    let mut lines = info.text().lines();
    lines.find_map(|line| line.strip_prefix("total_connections_received:")?.parse().ok())
}

/// Returns the locks that are held. Keys that begin with a brace belong to a lock, such as its token counter,
/// which outlives the holds.
fn locks(session: &mut Session) -> Vec<String> {
    let keys = session.call(&["KEYS", "*"]);
    let names = keys.array().iter().map(|key| key.text().to_owned());
    names.filter(|name| !name.starts_with('{')).collect()
}
