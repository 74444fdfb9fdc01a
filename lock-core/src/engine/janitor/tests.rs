use super::*;
use crate::{LockClient, MemoryBackend};

/// S5: an earlier guard of a lease may give the hold back while the lease is attached. The hold belongs to the later guard.
#[tokio::test]
async fn s5_a_cleanup_spares_a_lease_that_a_later_guard_has() {
    for remains in [Remains::Hold, Remains::Claim] {
        let client = LockClient::new(MemoryBackend::new());
        let lease = client.acquire("a").await.expect("a free lock").detach().expect("it is held");
        let (name, owner, ttl) = (lease.name().clone(), lease.owner(), lease.ttl());
        let guard = client.attach(lease).await.expect("it is held");
        let janitor = &client.shared.janitor;
        janitor.clear(remains, &name, owner, ttl, None);
        janitor.finish(ttl).await;
        let released = guard.release_confirmed().await.expect("an answer");
        assert_eq!(released, Release::Released, "{remains:?} was given back");
    }
}
