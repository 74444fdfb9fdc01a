//! C24, C25: the side of the resource on etcd.

use leasehold::etcd::EtcdBackend;
use leasehold::etcd::etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use leasehold::{Fence, FenceError, LockClient};

use crate::servers::{delete_holder, one_member};
use crate::support::{check_remembers_nothing, fresh_name, patient};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_stale_holder_can_neither_advance_nor_write() {
    let server = one_member().await;
    let lock = EtcdBackend::connect(&server.url()).await.expect("a connection");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let (fence, stock) = (lock.fence(&name), format!("stock-{name}"));
    let written = || server.ctl(&["get", "--print-value-only", &stock]);

    let stale = locks.acquire(patient(&name)).await.expect("a free lock");
    fence.advance(stale.token()).await.expect("the only one");
    fence.set(stale.token(), &*stock, "99").await.expect("the only one");
    delete_holder(server, &name);

    let holder = locks.acquire(patient(&name)).await.expect("it is free");
    fence.advance(holder.token()).await.expect("the newest");
    // The stale holder is already refused between the new holder's read and its write.
    let refused = fence.set(stale.token(), &*stock, "50").await;
    assert!(matches!(refused, Err(FenceError::Stale { seen, .. }) if seen == holder.token()));
    assert_eq!(written(), "99\n");
    fence.set(holder.token(), &*stock, "98").await.expect("the newest");
    assert!(matches!(fence.advance(stale.token()).await, Err(FenceError::Stale { .. })));
    fence.advance(holder.token()).await.expect("advancing again does no harm");
    assert_eq!(written(), "98\n");
    check_remembers_nothing(&lock.fence(fresh_name())).await;
    // The mark belongs to the resource: it has no lease.
    let mark = server.ctl(&["get", &format!("leasehold/fences/{name}"), "-w", "fields"]);
    assert!(mark.contains("\"Lease\" : 0"), "{mark}");
    holder.release().await.expect("an answer");
}

/// A caller's own transaction with the comparison is refused as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c24_a_stale_holders_own_transaction_is_refused() {
    let server = one_member().await;
    let lock = EtcdBackend::connect(&server.url()).await.expect("a connection");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let fence = lock.fence(&name);
    let mut etcd = Client::connect([server.addr().to_string()], None).await.expect("a client");
    let mut commit = async |token, value: &str| {
        let demanded = fence.comparison(token);
        let newest = Compare::value(demanded.key, CompareOp::Equal, demanded.value);
        let writes =
            [TxnOp::put(format!("a-{name}"), value, None), TxnOp::put(&*name, value, None)];
        let answer = etcd.txn(Txn::new().when([newest]).and_then(writes)).await;
        answer.expect("an answer").succeeded()
    };
    let stale = locks.acquire(patient(&name)).await.expect("a free lock");
    assert!(!commit(stale.token(), "early").await, "nobody has advanced the fence");
    fence.advance(stale.token()).await.expect("the only one");
    assert!(commit(stale.token(), "first").await);
    delete_holder(server, &name);
    let holder = locks.acquire(patient(&name)).await.expect("it is free");
    fence.advance(holder.token()).await.expect("the newest");
    assert!(!commit(stale.token(), "late").await, "a stale transaction was let through");
    assert_eq!(server.ctl(&["get", "--print-value-only", &name]), "first\n");
    assert!(commit(holder.token(), "second").await);
    holder.release().await.expect("an answer");
}

/// S1: a mark that is not understood, of a later version or damaged, is neither overwritten nor passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_a_mark_that_is_not_understood_refuses_every_token() {
    let server = one_member().await;
    let lock = EtcdBackend::connect(&server.url()).await.expect("a connection");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let (fence, key) = (lock.fence(&name), format!("leasehold/fences/{name}"));
    let guard = locks.acquire(patient(&name)).await.expect("a free lock");
    for mark in ["", "-", "38", "later:9", "0000000000000000", "9999999999999999"] {
        server.ctl(&["put", &key, "--", mark]);
        let refused = [
            fence.advance(guard.token()).await,
            fence.set(guard.token(), format!("stock-{name}"), "1").await,
            fence.seen().await.map(drop),
        ];
        for refused in refused {
            let Err(FenceError::Backend(error)) = refused else { panic!("{mark:?}: {refused:?}") };
            assert!(!error.is_transient() && error.to_string().contains(&key), "{mark:?}: {error}");
        }
        assert_eq!(server.ctl(&["get", "--print-value-only", &key]).trim(), mark);
    }
    server.ctl(&["del", &key]);
    fence.advance(guard.token()).await.expect("it knows of none");
    guard.release().await.expect("an answer");
}
