//! A request for several locks drops the answer "busy" of the store.

use std::time::Duration;

use leasehold::{LockError, MultiRequest, connect};
use lock_testkit::{Mode, Proxy, RedisServer};

use crate::verdict::Verdict;

const REQUESTS: usize = 10;

/// Way of a request, and of its answer.
const WAY: Duration = Duration::from_millis(100);

/// Wait of a request: longer than the first answer takes, "busy", and shorter than two.
const WAIT: Duration = Duration::from_millis(300);

pub(crate) async fn run() -> Verdict {
    let server = RedisServer::start().await;
    let holder = connect(&server.url()).await.expect("a connection");
    let _guard = holder.acquire("a").await.expect("a free lock");
    let network = Proxy::start(server.addr()).await;
    let client = connect(&network.url()).await.expect("a connection");
    network.set(Mode::Delay(WAY));
    let mut silent = 0;
    for _ in 0..REQUESTS {
        let request = MultiRequest::new(["a", "b"]).wait(WAIT);
        match client.acquire_all(request).await {
            Err(LockError::Timeout { contention: None, .. }) => silent += 1,
            Err(LockError::Timeout { .. }) => {}
            other => panic!("the lock is held: {other:?}"),
        }
    }
    let seen = format!("{silent} of {REQUESTS} say that the server did not answer");
    Verdict::of("each says that the lock is busy, since the server answers", seen, silent == 0)
}
