//! The flash sale with Memcached: `--url memcached://HOST[:PORT]`.

use std::process::ExitCode;

use leasehold::Connector;
use memcached_backend::MemcachedBackend;

fn main() -> ExitCode {
    let connect = |url: String| async move { MemcachedBackend::connect(&url).await };
    flash_sale::main(Connector::new().scheme("memcached", connect))
}
