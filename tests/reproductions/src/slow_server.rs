//! A crowd of tries multiplies the requests to a slow server.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{LockClient, backend};
use lock_testkit::{Fault, Faulty, Operation, RedisServer};

use crate::verdict::Verdict;

/// Delay of each answer of the slow server: within the request time-out of 2 s.
const LATE: Duration = Duration::from_millis(1_500);

/// Number of requests that a crowd may need.
const FEW: usize = 20;

pub(crate) async fn run(size: usize) -> Verdict {
    let server = RedisServer::start().await;
    let holder = leasehold::connect(&server.url()).await.expect("a connection");
    let _guard = holder.acquire("a").await.expect("a free lock");
    let requests = async |fault: Option<Fault>| {
        let faulty = Faulty::new(backend(&server.url()).await.expect("a connection"));
        if let Some(fault) = fault {
            faulty.always(Operation::Acquire, fault);
        }
        let client = LockClient::new(faulty.clone());
        join_all((0..size).map(|_| client.try_acquire("a"))).await;
        faulty.calls(Operation::Acquire)
    };
    let (quick, slow) = (requests(None).await, requests(Some(Fault::Late(LATE))).await);
    let seen = format!("{size} tries: {quick} requests to a quick server, {slow} to a slow one");
    let right = format!("one asks for all: {FEW} requests at most to either");
    Verdict::of(right, seen, quick <= FEW && slow <= FEW)
}
