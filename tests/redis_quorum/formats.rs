//! Values of a later version, or of other programs, on the servers of a set: a client never ignores them.

use leasehold::core::backend::Release;
use leasehold::{DistributedLock, LockRequest};

use crate::set::Set;
use crate::support::fresh_name;

const OWNER: &str = "0123456789abcdef0123456789abcdef";

/// S3: an unreadable record is a foreign holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_record_that_is_not_understood_is_a_foreign_holder() {
    let set = Set::three().await;
    let client = set.client().await;
    for record in [
        format!("*\n{OWNER}:7:9999999999999:1"),
        format!("@\n{OWNER}:7:9999999999999:1::label"),
        format!("{OWNER}:x:9999999999999:label"),
    ] {
        let name = fresh_name();
        set.cli(&["SET", &name, &record, "PX", "60000"]);
        let tried = client.try_acquire(&*name).await.expect("an answer");
        assert!(tried.is_none(), "two holders: {record:?}");
        assert!(set.cli(&["GET", &name]).iter().all(|value| value.text() == record));
    }
}

/// C14, C19: a hold ends, and its ballot is stale from then on, whatever is in place of the waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_a_hold_ends_whatever_its_companions_are() {
    let set = Set::three().await;
    let backend = set.backend().await;
    for is_withdrawn in [false, true] {
        let claim = LockRequest::new(fresh_name()).claim().expect("a claim");
        backend.acquire(&claim, None).await.expect("an answer");
        let name = claim.name.as_str();
        let token = set.cli(&["GET", &format!("{{{name}}}:fence")])[0].text().to_owned();
        set.cli(&["RPUSH", &format!("{{{name}}}:waiting"), "x"]);
        set.cli(&["DEL", &format!("{{{name}}}:fence")]);
        match is_withdrawn {
            true => backend.withdraw(&claim.name, &[claim.owner]).await.expect("it is withdrawn"),
            false => {
                let answer = backend.release(&claim.name, claim.owner).await;
                assert_eq!(answer.expect("it is released"), Release::Released);
            }
        }
        assert!(set.held(name).iter().all(|held| !held));
        let counters = set.cli(&["GET", &format!("{{{name}}}:fence")]);
        assert!(counters.iter().all(|counter| counter.text() == token), "{counters:?}");
    }
}
