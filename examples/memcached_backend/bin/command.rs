//! The `leasehold` command, which also takes URLs `memcached://HOST[:PORT]`.

use std::process::ExitCode;

use leasehold::Connector;
use memcached_backend::MemcachedBackend;

fn main() -> ExitCode {
    let connect = |url: String| async move { MemcachedBackend::connect(&url).await };
    lock_cli::main(Connector::new().scheme("memcached", connect))
}
