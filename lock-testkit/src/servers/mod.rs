//! Real servers for tests. They end with the test, even if it is killed.

mod certificates;
mod etcd_cluster;
mod etcd_server;
mod free_port;
mod launched;
mod pgbouncer;
mod postgres_server;
mod redis_cluster;
mod redis_sentinel;
mod redis_sentinels;
mod redis_server;
mod resp;
mod tls_redis;
mod wall_clock;
mod zookeeper_ensemble;
mod zookeeper_server;

pub use self::certificates::{Certificates, Signed};
pub use self::etcd_cluster::EtcdCluster;
pub use self::etcd_server::EtcdServer;
pub use self::free_port::free_port;
pub(crate) use self::free_port::{is_port_taken, on_free_ports};
pub use self::pgbouncer::PgBouncer;
pub use self::postgres_server::PostgresServer;
pub use self::redis_cluster::RedisCluster;
pub use self::redis_sentinel::RedisSentinel;
pub use self::redis_sentinels::RedisSentinels;
pub use self::redis_server::RedisServer;
pub use self::resp::{Reply, Session};
pub use self::tls_redis::TlsRedis;
pub use self::wall_clock::WallClock;
pub use self::zookeeper_ensemble::ZooKeeperEnsemble;
pub use self::zookeeper_server::ZooKeeperServer;
