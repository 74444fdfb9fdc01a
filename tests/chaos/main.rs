//! Histories on every kind of store under random faults, and controls that test the checker.
//!
//! Each test is one short run. `cargo xtask chaos` makes long ones of them.

#![allow(clippy::expect_used, clippy::panic)]

mod controls;
mod registers;
mod stores;

use lock_testkit::chaos::{Plan, play, run};
use lock_testkit::child;

/// The workers of all stores. The URL names the store.
#[test]
fn child_role() {
    child::run(async |_| play::<stores::Any>().await);
}

/// Makes a test of a short run on each store.
macro_rules! histories {
    ($($(#[$feature:meta])* $name:ident: $store:ty;)*) => {
        $(
            $(#[$feature])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                run::<$store>(&Plan::of_environment()).await.demand_none();
            }
        )*
    };
}

histories! {
    p1_histories_on_memory: stores::Memory;
    p1_histories_on_files: stores::Files;
    #[cfg(feature = "redis")]
    p1_histories_on_redis: stores::redis::Redis;
    #[cfg(feature = "redis")]
    p1_histories_on_redis_cluster: stores::redis::Cluster;
    #[cfg(feature = "redis")]
    p1_histories_on_redis_quorum: stores::redis::RedisQuorum;
    #[cfg(feature = "redis")]
    p1_histories_on_redis_sentinel: stores::redis::Sentinels;
    #[cfg(feature = "etcd")]
    p1_histories_on_etcd: stores::etcd::Etcd;
    #[cfg(feature = "etcd")]
    p1_histories_on_etcd_of_three: stores::etcd::Members;
    #[cfg(feature = "postgres")]
    p1_histories_on_postgres: stores::postgres::Postgres;
    #[cfg(feature = "postgres")]
    p1_histories_on_postgres_pooled: stores::postgres::Pooled;
    #[cfg(feature = "postgres")]
    p1_histories_on_postgres_standby: stores::postgres::WithStandby;
    #[cfg(feature = "zookeeper")]
    p1_histories_on_zookeeper: stores::zookeeper::ZooKeeper;
    #[cfg(feature = "zookeeper")]
    p1_histories_on_zookeeper_of_three: stores::zookeeper::Members;
}
