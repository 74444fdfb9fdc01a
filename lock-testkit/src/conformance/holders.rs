//! C38: the independence of holders beside each other.

use std::time::Duration;

use lock_core::backend::{Attempt, Claim, Extension};
use lock_core::{LockRequest, Whom};

use super::harness::Harness;
use super::kinds::{OF_TWO, SHARED, claim, extended, granted, has, holders, release_all};
use super::steps::{eventually, fresh_name, patient};
use crate::Expect;

/// C38: the end of one hold does not affect the others, and frees its part.
pub async fn c38_each_holder_stands_by_itself(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for asked in [SHARED, OF_TWO].into_iter().filter(|asked| has(&backend, *asked)) {
        let name = fresh_name();
        let stays = claim(harness, &name, asked);
        let short = asked(LockRequest::from(&name).ttl(harness.ttl()));
        let expires = short.claim().expect("a good claim");
        let grant = granted(&backend, &stays).await;
        let gone = granted(&backend, &expires).await;
        eventually(harness, "a hold that nobody renews expires beside another", async || {
            holders(&backend, &name).await.len() == 1
        })
        .await;
        let lost = extended(&backend, &expires, &gone).await;
        assert_eq!(lost, Extension::Lost, "an expired hold is over, though another goes on");
        let still = extended(&backend, &stays, &grant).await;
        assert!(
            matches!(still, Extension::Extended(_)),
            "one holder's end costs the other nothing"
        );
        let next = claim(harness, &name, asked);
        let next_grant = granted(&backend, &next).await;
        assert_eq!(gone.slots, next_grant.slots, "its part is free");
        release_all(&backend, &[stays]).await;
        let still = extended(&backend, &next, &next_grant).await;
        assert!(matches!(still, Extension::Extended(_)), "a release ends one hold alone");
        release_all(&backend, &[next]).await;
        assert_eq!(holders(&backend, &name).await, [], "nobody holds it");
    }
}

/// C38: an eviction ends the hold of one owner, or all.
pub async fn c38_an_eviction_ends_one_hold_or_all(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for asked in [SHARED, OF_TWO].into_iter().filter(|asked| has(&backend, *asked)) {
        let name = fresh_name();
        let claims: Vec<Claim> = (0..2).map(|_| claim(harness, &name, asked)).collect();
        let grants = [granted(&backend, &claims[0]).await, granted(&backend, &claims[1]).await];
        let whom = Whom::Owner(claims[0].owner.to_string());
        let evicted = backend.expect_admin().evict(&name, &whom).await.expect("an answer");
        let tokens: Vec<_> = evicted.iter().filter_map(|holder| holder.token).collect();
        assert_eq!(tokens, [grants[0].token], "the hold of one owner is to end, and no other");
        assert_eq!(extended(&backend, &claims[0], &grants[0]).await, Extension::Lost);
        let still = extended(&backend, &claims[1], &grants[1]).await;
        assert!(matches!(still, Extension::Extended(_)), "the other goes on");
        let nobody = backend.expect_admin().evict(&name, &whom).await.expect("an answer");
        assert_eq!(nobody, [], "it holds nothing any more");
        let all = backend.expect_admin().evict(&name, &Whom::All).await.expect("an answer");
        assert_eq!(all.len(), 1, "all who hold it");
        assert_eq!(holders(&backend, &name).await, [], "nobody holds it");
    }
}

/// C38: an inspection lists all holders, in the order of their grants.
pub async fn c38_an_inspection_lists_all_holders(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for asked in [SHARED, OF_TWO].into_iter().filter(|asked| has(&backend, *asked)) {
        let name = fresh_name();
        let labelled = |label: &str| {
            let request = asked(patient(&name, harness.long_ttl())).label(label);
            request.claim().expect("a good claim")
        };
        let claims = [labelled("first"), labelled("second")];
        let grants = [granted(&backend, &claims[0]).await, granted(&backend, &claims[1]).await];
        let shown = holders(&backend, &name).await;
        assert_eq!(shown.len(), 2, "an inspection is to list all holders");
        for ((holder, claim), grant) in shown.iter().zip(&claims).zip(&grants) {
            assert_eq!(holder.owner.as_deref(), Some(&*claim.owner.to_string()));
            assert_eq!((holder.token, holder.kind), (Some(grant.token), claim.kind));
            assert_eq!((&holder.slots, &holder.label), (&grant.slots, &claim.label));
            let left = holder.ttl_left.expect("ours has a TTL");
            // A server that counts whole seconds may report more.
            let most = grant.ttl + backend.capabilities().ttl_granularity;
            assert!(left > Duration::ZERO && left <= most, "{left:?} of {:?}", grant.ttl);
        }
        let listed = backend.expect_admin().list(name.as_str(), 10).await.expect("an answer");
        assert_eq!(listed.len(), 1, "a lock is listed once");
        assert_eq!(listed[0].holders.len(), 2, "a listing is to show all holders");
        release_all(&backend, &claims).await;
    }
}

/// C19: a withdrawn claim of any kind leaves nothing, and a late request of it takes nothing.
pub async fn c38_a_withdrawal_ends_its_own_hold_alone(harness: &dyn Harness) {
    let backend = harness.connect().await;
    for asked in [SHARED, OF_TWO].into_iter().filter(|asked| has(&backend, *asked)) {
        let name = fresh_name();
        let (stays, withdrawn) = (claim(harness, &name, asked), claim(harness, &name, asked));
        let grant = granted(&backend, &stays).await;
        granted(&backend, &withdrawn).await;
        backend.withdraw(&name, &[withdrawn.owner]).await.expect("an answer");
        let late = backend.acquire(&withdrawn, None).await;
        assert!(!matches!(late, Ok(Attempt::Granted(_))), "a withdrawn claim takes nothing");
        assert_eq!(holders(&backend, &name).await.len(), 1, "its hold is over, and no other");
        let still = extended(&backend, &stays, &grant).await;
        assert!(matches!(still, Extension::Extended(_)), "the other goes on");
        release_all(&backend, &[stays]).await;
    }
}
