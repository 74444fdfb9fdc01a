//! The mutants, a file or a folder for each package. Keep each fault one that somebody could really write.

mod lock_cli;
mod lock_core;
mod lock_etcd;
mod lock_file;
mod lock_postgres;
mod lock_redis;
mod memcached_backend;

use super::mutant::Mutant;

/// All mutants.
pub(super) fn all() -> impl Iterator<Item = &'static Mutant> {
    [lock_cli::MUTANTS, lock_etcd::MUTANTS, lock_file::MUTANTS, memcached_backend::MUTANTS]
        .into_iter()
        .chain(lock_core::ROOMS)
        .chain(lock_postgres::ROOMS)
        .chain(lock_redis::ROOMS)
        .flatten()
}
