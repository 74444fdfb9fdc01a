//! Longest times of calls when the server is away: the table of time-outs in `docs/operating.md`, in figures.

use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use leasehold::{ClientOptions, LockClient, LockError, LockRequest, Wait, connect, connect_with};
use lock_testkit::{Mode, Proxy, RedisServer};
use tokio::join;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{LIMIT, SLACK, fresh_name};

const REQUEST_TIMEOUT: Duration = Duration::from_millis(1500);

/// C17: time that a call may take beyond its bound, with the delay of a loaded machine.
const MARGIN: Duration = Duration::from_millis(100).saturating_add(SLACK);

const TTL: Duration = Duration::from_secs(4);

/// A shutdown without an answer lasts until the TTLs have ended the holds, and at least this long for late effects of
/// acquisitions.
const SHUTDOWN_BOUND: Duration = Duration::from_secs(5);

/// Time to connect, 2 s, and for the first answer, 2 s. No option shortens them.
const CONNECT_BOUND: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_the_bounds_hold_when_connections_are_refused() {
    let mut server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let work = Work::start(&client).await;
    let url = server.url();
    server.kill();
    assert_bounds(&client, work, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_the_bounds_hold_when_the_server_is_silent() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let work = Work::start(&client).await;
    server.stop();
    assert_bounds(&client, work, &server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_the_bounds_hold_when_the_network_swallows() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client(&proxy.url()).await;
    let work = Work::start(&client).await;
    proxy.set(Mode::BlackHole);
    assert_bounds(&client, work, &proxy.url()).await;
}

/// C17: RFC 6761 keeps `.invalid` for names that no server knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_name_that_cannot_be_resolved_delays_no_connect() {
    let (took, connected) = timed(connect("redis://no-such-host.invalid/")).await;
    assert!(matches!(connected, Err(LockError::Backend { .. })), "{connected:?}");
    assert!(took < CONNECT_BOUND + MARGIN, "{took:?}");
}

async fn client(url: &str) -> LockClient {
    let options = ClientOptions::new().request_timeout(REQUEST_TIMEOUT).ttl(TTL);
    connect_with(url, options).await.expect("a connection")
}

/// Asserts each row of the table, for an unreachable server at `url`.
async fn assert_bounds(client: &LockClient, work: Work, url: &str) {
    let wait = |wait| LockRequest::new(fresh_name()).wait(wait);
    let (short, long) = (REQUEST_TIMEOUT / 4, REQUEST_TIMEOUT * 2);
    join!(
        fails_within(REQUEST_TIMEOUT, client.try_acquire(fresh_name())),
        fails_within(REQUEST_TIMEOUT, client.acquire(wait(Wait::AtMost(Duration::ZERO)))),
        fails_within(short, client.acquire(wait(Wait::AtMost(short)))),
        fails_within(long, client.acquire(wait(Wait::AtMost(long)))),
        fails_within(REQUEST_TIMEOUT * 11 / 2, client.acquire(wait(Wait::Forever))),
        fails_within(CONNECT_BOUND, connect(url)),
        work.ends_well_within(REQUEST_TIMEOUT),
    );
    let (took, ()) = timed(client.shutdown()).await;
    assert!(took < SHUTDOWN_BOUND.max(TTL) + MARGIN, "{took:?}");
}

/// Boxed, since there are many of them.
fn fails_within<'a, T: 'a>(
    bound: Duration,
    call: impl Future<Output = Result<T, LockError>> + 'a,
) -> LocalBoxFuture<'a, ()> {
    Box::pin(async move {
        let (took, answer) = timed(call).await;
        assert!(answer.is_err(), "an answer without a server");
        assert!(took < bound + MARGIN, "{took:?} at a bound of {bound:?}");
    })
}

async fn timed<T>(call: impl Future<Output = T>) -> (Duration, T) {
    let asked = Instant::now();
    let answer = tokio::time::timeout(LIMIT, call).await.expect("an end");
    (asked.elapsed(), answer)
}

/// Work under a lock that ends on demand.
struct Work {
    done: oneshot::Sender<()>,
    task: JoinHandle<Result<(), LockError>>,
}

impl Work {
    /// Returns once the lock is held.
    async fn start(client: &LockClient) -> Self {
        let (done, told) = oneshot::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let client = client.clone();
        let task = tokio::spawn(async move {
            let work = async |_: &_| {
                let _ = begun.send(());
                let _ = told.await;
            };
            client.with(fresh_name(), work).await?.into_value()
        });
        has_begun.await.expect("the lock is free");
        Self { done, task }
    }

    /// C47: ends the work. A silent server delays it by at most `bound`, and never makes it fail.
    async fn ends_well_within(self, bound: Duration) {
        let _ = self.done.send(());
        let (took, ended) = timed(self.task).await;
        ended.expect("no panic").expect("the hold lasted");
        assert!(took < bound + MARGIN, "{took:?} at a bound of {bound:?}");
    }
}

/// C17: a listing of a store with many idle names and other keys is answered, if not in full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_listing_of_a_large_store_is_answered() {
    const FILL: &str = "for i = ARGV[1], ARGV[1] + 9999 do
        redis.call('SET', '{idle:' .. i .. '}:fence', '7')
        redis.call('SET', 'other:' .. i, '7')
        redis.call('SET', 'more:' .. i, '7')
    end";
    let server = RedisServer::start().await;
    for tens in 0..10 {
        server.cli(&["EVAL", FILL, "0", &(tens * 10_000).to_string()]);
    }
    let client = connect(&server.url()).await.expect("a connection");
    let _held = client.acquire("held").await.expect("it is free");
    match client.admin().list("", 10).await {
        Ok(held) => assert_eq!(held.len(), 1),
        Err(cut) => assert!(cut.to_string().contains("the listing stopped"), "{cut}"),
    }
}
