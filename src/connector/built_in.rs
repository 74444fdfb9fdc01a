//! The backends of this crate.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use lock_core::backend::UrlParameters;
use lock_core::{LockError, MemoryBackend};
use lock_file::FileBackend;
use percent_encoding::percent_decode_str;

use super::{Connector, config};

/// Adds all backends, and of those that are not compiled in which feature brings them.
pub(super) fn all(connector: Connector) -> Connector {
    let connector = connector
        .scheme("memory", |url| async move { memory(&url) })
        .scheme("file", |url| async move { FileBackend::open(directory(&url)?) });
    redis(postgres(etcd(connector)))
}

#[cfg(feature = "etcd")]
fn etcd(connector: Connector) -> Connector {
    use lock_etcd::EtcdBackend;

    let connector = connector.scheme("etcd", |url| async move { EtcdBackend::connect(&url).await });
    match cfg!(feature = "etcd-tls") {
        true => connector.scheme("etcds", |url| async move { EtcdBackend::connect(&url).await }),
        false => lacks(connector, "etcds", "`etcd-tls`"),
    }
}

#[cfg(not(feature = "etcd"))]
fn etcd(connector: Connector) -> Connector {
    lacks(lacks(connector, "etcd", "`etcd`"), "etcds", "`etcd-tls`")
}

#[cfg(feature = "postgres")]
fn postgres(connector: Connector) -> Connector {
    ["postgres", "postgresql"].into_iter().fold(connector, |connector, scheme| {
        connector.scheme(scheme, |url| async move { lock_postgres::connect(&url).await })
    })
}

#[cfg(not(feature = "postgres"))]
fn postgres(connector: Connector) -> Connector {
    lacks(lacks(connector, "postgres", "`postgres`"), "postgresql", "`postgres`")
}

#[cfg(feature = "redis")]
fn redis(connector: Connector) -> Connector {
    use lock_redis::RedisBackend;

    let open = |url: String| async move { RedisBackend::connect(&url).await };
    let connector = connector.scheme("redis", open).scheme("redis+unix", open);
    match cfg!(any(feature = "redis-rustls", feature = "redis-native-tls")) {
        true => connector.scheme("rediss", open),
        false => lacks(connector, "rediss", "`redis-rustls` or `redis-native-tls`"),
    }
}

#[cfg(not(feature = "redis"))]
fn redis(connector: Connector) -> Connector {
    let connector = lacks(lacks(connector, "redis", "`redis`"), "redis+unix", "`redis`");
    lacks(connector, "rediss", "`redis-rustls` or `redis-native-tls`")
}

/// A scheme whose backend is not compiled in.
#[allow(dead_code)]
fn lacks(mut connector: Connector, scheme: &'static str, feature: &'static str) -> Connector {
    connector.missing.insert(scheme, feature);
    connector
}

/// The store of a name, or one of its own for no name.
fn memory(url: &str) -> Result<MemoryBackend, LockError> {
    static SHARED: LazyLock<Mutex<HashMap<String, MemoryBackend>>> = LazyLock::new(Mutex::default);
    let name = bare(url)?;
    if name.is_empty() {
        return Ok(MemoryBackend::new());
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(shared.entry(name).or_default().clone())
}

/// The directory of `file:DIRECTORY`, `file:///DIRECTORY` or `file://localhost/DIRECTORY`.
fn directory(url: &str) -> Result<PathBuf, LockError> {
    let rest = &*bare(url)?;
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

/// What stands behind the scheme of a URL that takes no parameters.
fn bare(url: &str) -> Result<String, LockError> {
    // C49: neither reads any.
    let parameters = UrlParameters::of(url);
    parameters.refuse_unknown()?;
    let (_, rest) = parameters.base().split_once(':').unwrap_or_default();
    Ok(rest.to_owned())
}
