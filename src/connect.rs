//! From a URL to a client.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use lock_core::{DistributedLock, LockClient, LockError, MemoryLock};
use lock_file::FileLock;
use percent_encoding::percent_decode_str;

/// What a URL can start with.
const SCHEMES: &str = "memory:, file:, etcd:, etcds:, postgres:, postgresql:, redis:, rediss: and \
                       redis+unix:";

/// Connects to the locks at `url`.
///
/// | URL | locks | feature |
/// | --- | --- | --- |
/// | `memory:` | of this client alone | |
/// | `memory:NAME` | of this process, shared by all who use the name | |
/// | `file:DIRECTORY` | of the processes of this machine | |
/// | `etcd://[user:password@]host[:port][,host[:port]…][/prefix]` | of an etcd cluster | `etcd` |
/// | `etcds://…` | the same, by TLS | `etcd-tls` |
/// | `postgres://[user[:password]@]host[:port][/database]` | of a Postgres database, as rows of a table; with `?lock_mode=advisory` as advisory locks | `postgres` |
/// | `redis://[user:password@]host[:port][/database]` | of a Redis server | `redis` |
/// | `rediss://…` | the same, by TLS | `redis-rustls` or `redis-native-tls` |
/// | `redis+unix:///path[?db=n&user=u&pass=p]` | the same, by a unix socket | `redis` |
///
/// # Errors
/// - [`LockError::Config`] if the URL cannot be used, or names a backend that is not compiled in:
///   the text names the feature to enable. The URL is not repeated, since it may hold a password.
/// - [`LockError::Backend`] if the server cannot be reached or refuses.
///
/// # Cancel safety
/// Dropping the future closes the connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), leasehold::LockError> {
/// let locks = leasehold::connect("memory:").await?;
/// let guard = locks.acquire("stock:42").await?;
/// # Ok(()) }
/// ```
pub async fn connect(url: &str) -> Result<LockClient, LockError> {
    Ok(LockClient::new(backend(url).await?))
}

/// Opens the backend at `url`, for a [`LockClient`] with options of its own.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn backend(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    let (scheme, rest) = url.split_once(':').ok_or_else(no_scheme)?;
    match scheme {
        "memory" => Ok(Arc::new(memory(rest))),
        "file" => Ok(Arc::new(FileLock::open(directory(rest)?)?)),
        "etcd" | "etcds" => etcd(scheme, url).await,
        "postgres" | "postgresql" => postgres(scheme, url).await,
        "redis" | "rediss" | "redis+unix" => redis(scheme, url).await,
        unknown => Err(unknown_scheme(unknown)),
    }
}

#[cfg(feature = "etcd")]
async fn etcd(scheme: &str, url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    if scheme == "etcds" && cfg!(not(feature = "etcd-tls")) {
        return Err(needs_feature(scheme, "`etcd-tls`"));
    }
    Ok(Arc::new(lock_etcd::EtcdLock::connect(url).await?))
}

#[cfg(not(feature = "etcd"))]
async fn etcd(scheme: &str, _url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    Err(needs_feature(scheme, if scheme == "etcds" { "`etcd-tls`" } else { "`etcd`" }))
}

#[cfg(feature = "postgres")]
async fn postgres(_scheme: &str, url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    lock_postgres::connect(url).await
}

#[cfg(not(feature = "postgres"))]
async fn postgres(scheme: &str, _url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    Err(needs_feature(scheme, "`postgres`"))
}

#[cfg(feature = "redis")]
async fn redis(scheme: &str, url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    let tls = cfg!(any(feature = "redis-rustls", feature = "redis-native-tls"));
    if scheme == "rediss" && !tls {
        return Err(needs_feature(scheme, "`redis-rustls` or `redis-native-tls`"));
    }
    Ok(Arc::new(lock_redis::RedisLock::connect(url).await?))
}

#[cfg(not(feature = "redis"))]
async fn redis(scheme: &str, _url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    let feature = if scheme == "rediss" { "`redis-rustls`" } else { "`redis`" };
    Err(needs_feature(scheme, feature))
}

/// The store of a name, or one of its own for no name.
fn memory(name: &str) -> MemoryLock {
    static SHARED: LazyLock<Mutex<HashMap<String, MemoryLock>>> = LazyLock::new(Mutex::default);
    if name.is_empty() {
        return MemoryLock::new();
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.entry(name.to_owned()).or_default().clone()
}

/// The directory of `file:DIRECTORY`, `file:///DIRECTORY` or `file://localhost/DIRECTORY`.
fn directory(rest: &str) -> Result<PathBuf, LockError> {
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(local) => local.strip_prefix("localhost").unwrap_or(local),
    };
    let remote = rest.starts_with("//") && !path.starts_with('/');
    let path = percent_decode_str(path).decode_utf8().unwrap_or_default();
    if path.is_empty() || remote {
        return Err(config(
            "a file URL names a directory of this machine: file:/path/to/directory",
        ));
    }
    Ok(PathBuf::from(path.into_owned()))
}

fn no_scheme() -> LockError {
    config(&format!("a lock URL starts with its scheme: {SCHEMES}"))
}

fn unknown_scheme(scheme: &str) -> LockError {
    let shown: String = scheme.chars().take(20).flat_map(char::escape_debug).collect();
    config(&format!("no backend is called `{shown}`: there are {SCHEMES}"))
}

fn needs_feature(scheme: &str, feature: &str) -> LockError {
    config(&format!("`{scheme}:` is not compiled in: enable the feature {feature} of `leasehold`"))
}

fn config(message: &str) -> LockError {
    LockError::Config { message: message.to_owned() }
}
