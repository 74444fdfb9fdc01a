//! The README and the pages of `docs/`, so that each of their code blocks is compiled and run. Their links lead
//! from file to file, and would be dead in rendered documentation.

#[cfg(feature = "etcd")]
#[doc = include_str!("../docs/backends/etcd.md")]
mod backend_etcd {}
#[doc = include_str!("../docs/backends/file.md")]
mod backend_file {}
#[doc = include_str!("../docs/backends/memory.md")]
mod backend_memory {}
#[cfg(feature = "postgres")]
#[doc = include_str!("../docs/backends/postgres.md")]
mod backend_postgres {}
#[cfg(feature = "redis")]
#[doc = include_str!("../docs/backends/redis.md")]
mod backend_redis {}
#[doc = include_str!("../docs/cli.md")]
mod cli {}
#[doc = include_str!("../docs/coming_from.md")]
mod coming_from {}
#[doc = include_str!("../docs/comparison.md")]
mod comparison {}
#[doc = include_str!("../docs/contract.md")]
mod contract {}
#[doc = include_str!("../docs/fencing.md")]
mod fencing {}
#[doc = include_str!("../docs/first_hour.md")]
mod first_hour {}
#[doc = include_str!("../docs/guarantees.md")]
mod guarantees {}
#[doc = include_str!("../docs/observability.md")]
mod observability {}
#[doc = include_str!("../docs/operating.md")]
mod operating {}
#[doc = include_str!("../README.md")]
mod readme {}
#[doc = include_str!("../docs/testing.md")]
mod testing {}
