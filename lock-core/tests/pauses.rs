//! Clients whose runtime or process is paused at times.

#![allow(clippy::expect_used, clippy::panic)]

use std::time::Duration;

use lock_core::{ClientOptions, LockClient, LockRequest, MemoryBackend, Wait};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// C18: pauses during an endless wait are no outage of the server, even with short limits.
#[tokio::test]
async fn c18_an_endless_wait_outlasts_its_own_pauses() {
    let store = MemoryBackend::new();
    let holder = LockClient::new(store.clone());
    let guard = holder.acquire("a").await.expect("a free lock");
    let faulty = Faulty::new(std::sync::Arc::new(store));
    // Looks at the server once a second, and tolerates outages for half of that.
    faulty.always(Operation::Acquire, Fault::Late(Duration::from_millis(1)));
    let options = ClientOptions::new().request_timeout(Duration::from_millis(100));
    let waiter = LockClient::with_options(faulty.clone(), options);
    let waiting = waiter.acquire(LockRequest::new("a").wait(Wait::Forever));
    let release = async {
        while faulty.calls(Operation::Acquire) < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        guard.release().await.expect("an answer");
    };
    let (next, ()) = timeout(LIMIT, async { tokio::join!(waiting, release) }).await.expect("soon");
    next.expect("its turn").release().await.expect("an answer");
}

/// C20: a shutdown works even if nobody drives the runtime of the client's tasks.
#[test]
fn c20_shutdown_needs_no_other_runtime() {
    let (store, idle, busy) = (MemoryBackend::new(), runtime(), runtime());
    let client = LockClient::new(store.clone());
    let request = LockRequest::new("a").ttl(LIMIT * 2);
    let guard = idle.block_on(client.acquire(request)).expect("a free lock");
    drop(guard);
    busy.block_on(async {
        timeout(LIMIT, client.shutdown()).await.expect("it gives back by itself");
        let state = LockClient::new(store).admin().inspect("a").await.expect("an answer");
        assert_eq!(state.holder(), None);
    });
}
