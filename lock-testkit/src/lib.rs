//! Tools to test locks: a suite that tests a backend against the contract, real servers, a network that loses, delays
//! and cuts, and a backend that fails on demand.
//!
//! - [`conformance`]: one function per behaviour that the contract demands, for every backend.
//! - [`broken`]: backends that are broken on purpose, with the case of the suite that refuses each.
//! - [`faults`]: one function per behaviour with servers that die, stop, restart or are unreachable.
//! - [`explore`]: an exhaustive search of a small model of a protocol.
//! - [`Faulty`]: a backend between the client and a real one, which fails on demand.
//! - [`servers`]: a Redis, etcd, Postgres or ZooKeeper for the test alone, which ends with it.
//! - [`Proxy`]: a network that loses, delays and cuts on demand.
//! - [`process`]: programs on a tether, and another role of the same test binary.
//! - [`eventually()`]: waits for a condition, and names it if it does not come.
//!
//! A missing program is a panic with the package to install. Nothing is ever skipped.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend_ext;
#[cfg(feature = "conformance")]
pub mod broken;
#[cfg(feature = "servers")]
pub mod chaos;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "servers")]
mod eventually;
pub mod explore;
#[cfg(feature = "servers")]
pub mod faults;
mod faulty;
#[cfg(feature = "servers")]
pub mod process;
#[cfg(feature = "servers")]
mod proxy;
#[cfg(feature = "servers")]
pub mod servers;

pub use crate::backend_ext::{Expect, LeaseExt};
#[cfg(feature = "servers")]
pub use crate::eventually::eventually;
pub use crate::faulty::{Fault, Faulty, Foreign, Operation};
#[cfg(feature = "servers")]
pub use crate::process::{child, signal::is_running};
#[cfg(feature = "servers")]
pub use crate::proxy::{Mode, Proxy};
#[cfg(feature = "servers")]
pub use crate::servers::{
    Certificates, EtcdCluster, EtcdServer, PgBouncer, PostgresServer, RedisCluster, RedisSentinel,
    RedisSentinels, RedisServer, Reply, Session, Signed, TlsRedis, WallClock, ZooKeeperEnsemble,
    ZooKeeperServer,
};
