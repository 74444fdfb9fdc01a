//! Shared parts of the tests on servers: clients by URL, and the steps of the testkit.

mod access;
mod certificates;
mod clocks;
mod credentials;
mod fences;
mod places;
mod pushes;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use leasehold::admin::{Finding, Holder};
use leasehold::{BackendError, ClientOptions, DistributedLock, LockClient, LockError, Outcome};
pub(crate) use lock_testkit::faults::*;

pub(crate) use self::access::*;
pub(crate) use self::certificates::*;
pub(crate) use self::clocks::*;
pub(crate) use self::credentials::*;
pub(crate) use self::fences::*;
pub(crate) use self::places::*;
pub(crate) use self::pushes::*;
pub(crate) use self::turns::*;

/// Request time-out of an [`impatient`] client.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Request time-out of all other clients: far more than a loaded machine needs for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time that a loaded machine may add to a bound of the contract.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Returns the error of a try that the server refuses. The error says that nothing was done, unless a pause of
/// the machine cut the last request of the try short.
pub(crate) async fn refused_for_sure(client: &LockClient, name: &str) -> BackendError {
    for _ in 0..10 {
        let refused = client.try_acquire(name).await;
        let Err(LockError::Backend { source, .. }) = refused else { panic!("{refused:?}") };
        if source.outcome() == Outcome::NotApplied {
            return source;
        }
    }
    panic!("the outcome is unknown, again and again");
}

/// Returns a backend with its own connections. A busy machine may take longer for one than an attempt has.
pub(crate) async fn connected(url: &str) -> Arc<dyn DistributedLock> {
    leasehold::Connector::new().retry_for(LIMIT).backend(url).await.expect("a connection")
}

/// Returns a client with its own connections.
pub(crate) async fn client(url: &str) -> LockClient {
    client_of(connected(url).await)
}

pub(crate) fn client_of(lock: Arc<dyn DistributedLock>) -> LockClient {
    LockClient::with_options(lock, ClientOptions::new().request_timeout(PATIENCE))
}

/// Returns a client with its own connections, for a test of how soon a call fails.
pub(crate) async fn impatient(url: &str) -> LockClient {
    let lock = leasehold::backend(url).await.expect("a connection");
    LockClient::with_options(lock, ClientOptions::new().request_timeout(REQUEST_TIMEOUT))
}

/// Returns the doctor's finding of one check.
pub(crate) async fn finding(client: &LockClient, check: &str) -> Finding {
    let findings = client.admin().doctor().await.expect("an answer");
    findings.into_iter().find(|finding| finding.check == check).expect(check)
}

/// Returns the holder of a lock.
pub(crate) async fn holder_of(observer: &LockClient, name: &str) -> Holder {
    let state = observer.admin().inspect(name).await.expect("an answer");
    state.holder().cloned().expect("it is held")
}
