//! Crowds at one lock: the server has other clients, which wait while a script runs.

use std::time::Duration;

use leasehold::core::backend::Claim;
use leasehold::{DistributedLock, LockRequest, connect};
use lock_testkit::{RedisServer, eventually};

use crate::queue::{companion, place};
use crate::support::{LIMIT, fresh_name};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn permit(name: &str, limit: u16) -> Claim {
    // A busy machine takes its time for hundreds of holds.
    LockRequest::new(name).permits(1, limit).ttl(DAY).claim().expect("a claim")
}

/// Returns the processor time that the server has used.
fn cpu(server: &RedisServer) -> Duration {
    let info = server.cli(&["INFO", "cpu"]);
    let used = |what: &str| {
        let line = info.text().lines().find_map(|line| line.strip_prefix(what));
        Duration::from_secs_f64(line.expect("a line").parse().expect("seconds"))
    };
    used("used_cpu_user:") + used("used_cpu_sys:")
}

/// The listing of a job's runs looks at no key of others, and the index of the runs forgets those that have expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c42_the_runs_of_a_job_are_listed_without_a_scan() {
    let server = RedisServer::start().await;
    let client = connect(&server.url()).await.expect("a connection");
    let name = fresh_name();
    let run = async |occurrence: &str, remembered| {
        let once = client.once(&name).occurrence(occurrence).remember(remembered);
        let _ran = once.run(async |_| ()).await.expect("an answer");
    };
    run("expired", Duration::from_millis(10)).await;
    let indexed = || server.cli(&["ZCARD", &companion(&name, "runs")]).integer();
    let mut recorded = 0;
    eventually("an expired run leaves the index", LIMIT, async || {
        recorded += 1;
        run(&format!("run {recorded}"), DAY).await;
        indexed() == recorded
    })
    .await;
    let runs = client.admin().runs(&name).await.expect("an answer");
    assert_eq!(i64::try_from(runs.len()), Ok(recorded));
    assert!(!server.cli(&["INFO", "commandstats"]).text().contains("cmdstat_scan"));
}

/// Puts polling readers into the queue.
fn queue(server: &RedisServer, name: &str, waiters: u16) {
    const FILL: &str = "local now = redis.call('TIME')[1] * 1000000 + 60000000
        for i = 1, ARGV[2] do
            local owner = string.format('%032x', i)
            redis.call('ZADD', '{' .. ARGV[1] .. '}:queue', i, owner)
            redis.call('HSET', '{' .. ARGV[1] .. '}:waiters', owner,
                string.format('%.0f:30000*:poll:label', now))
        end";
    server.cli(&["EVAL", FILL, "0", name, &waiters.to_string()]);
}

/// The time of a release grows with the number of claims that it lets in, not with its square, and has a bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c34_a_release_lets_in_a_thousand_in_a_moment() {
    const WAITERS: u16 = 5_000;
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let name = fresh_name();
    let holder = LockRequest::new(&name).claim().expect("a claim");
    backend.acquire(&holder, None).await.expect("an answer");
    queue(&server, &name, WAITERS);
    let before = cpu(&server);
    backend.release(&holder.name, holder.owner).await.expect("an answer");
    let took = cpu(&server) - before;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let left = || server.cli(&["ZCARD", &companion(&name, "queue")]).integer();
    assert_eq!(left(), 4_000, "the others get in by their polls");
    let reader = LockRequest::new(&name).shared().claim().expect("a claim");
    backend.acquire(&reader, None).await.expect("an answer");
    assert_eq!(left(), 3_000);
}

/// A waiter behind a living one leaves the holds to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c36_a_poll_of_a_waiter_does_not_read_hundreds_of_holds() {
    const HOLDERS: u16 = 300;
    let server = RedisServer::start().await;
    let backend = leasehold::backend(&server.url()).await.expect("a connection");
    let name = fresh_name();
    for _ in 0..HOLDERS {
        backend.acquire(&permit(&name, HOLDERS), None).await.expect("an answer");
    }
    let claims: Vec<Claim> = (0..500).map(|_| permit(&name, HOLDERS)).collect();
    // The first ones count as dead if the machine is slow.
    for claim in &claims {
        assert!(place(&*backend, claim).await.is_some());
    }
    let before = cpu(&server);
    for claim in &claims {
        assert!(place(&*backend, claim).await.is_some());
    }
    let took = cpu(&server) - before;
    assert!(took < Duration::from_millis(250), "{took:?}");
}
