//! Servers, child processes and faulty networks for Leasehold's tests.
//!
//! - [`RedisServer`] and [`TlsRedis`]: a real server of one's own, which ends with the test.
//! - [`EtcdServer`] and [`EtcdCluster`]: the same for etcd.
//! - [`PostgresServer`] and [`PgBouncer`]: a Postgres server, and a pooler before it.
//! - [`Proxy`]: a network that loses, delays and cuts, at the test's word.
//! - [`child`]: another role of the same test binary, in a process of its own.
//! - [`eventually()`]: waits for a condition, and names it if it does not come.
//!
//! What cannot be set up is a panic that says what to install. Nothing is ever skipped.

pub mod child;
mod etcd_cluster;
mod etcd_server;
mod eventually;
mod free_port;
mod pgbouncer;
mod postgres_server;
mod program;
mod proxy;
mod redis_server;
mod resp;
mod signal;
mod tethered;
mod tls_redis;

pub use crate::etcd_cluster::EtcdCluster;
pub use crate::etcd_server::EtcdServer;
pub use crate::eventually::eventually;
pub use crate::pgbouncer::PgBouncer;
pub use crate::postgres_server::PostgresServer;
pub use crate::proxy::{Mode, Proxy};
pub use crate::redis_server::RedisServer;
pub use crate::resp::{Reply, Session};
pub use crate::signal::is_running;
pub use crate::tls_redis::TlsRedis;
