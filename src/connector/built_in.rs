//! The backends of this crate.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use lock_core::backend::UrlParameters;
use lock_core::{LockError, MemoryBackend};
use lock_file::{FileBackend, FileOptions};
use percent_encoding::percent_decode_str;

use super::schemes::{Schemes, config};

/// Adds all backends. For those that are not compiled in, adds the name of their feature.
pub(super) fn all() -> Schemes {
    let schemes = Schemes::default()
        .with("memory", |url| async move { memory(&url) })
        .with("file", |url| async move { files(&url) });
    redis_quorum(redis(postgres(etcd(zookeeper(schemes)))))
}

#[cfg(feature = "zookeeper")]
fn zookeeper(schemes: Schemes) -> Schemes {
    use lock_zookeeper::ZooKeeperBackend;

    let open = |url: String| async move { ZooKeeperBackend::connect(&url).await };
    let schemes = schemes.with("zookeeper", open);
    match cfg!(feature = "zookeeper-tls") {
        true => schemes.with("zookeepers", open),
        false => schemes.lacking("zookeepers", "`zookeeper-tls`"),
    }
}

#[cfg(not(feature = "zookeeper"))]
fn zookeeper(schemes: Schemes) -> Schemes {
    schemes.lacking("zookeeper", "`zookeeper`").lacking("zookeepers", "`zookeeper-tls`")
}

#[cfg(feature = "etcd")]
fn etcd(schemes: Schemes) -> Schemes {
    use lock_etcd::EtcdBackend;

    let schemes = schemes.with("etcd", |url| async move { EtcdBackend::connect(&url).await });
    match cfg!(feature = "etcd-tls") {
        true => schemes.with("etcds", |url| async move { EtcdBackend::connect(&url).await }),
        false => schemes.lacking("etcds", "`etcd-tls`"),
    }
}

#[cfg(not(feature = "etcd"))]
fn etcd(schemes: Schemes) -> Schemes {
    schemes.lacking("etcd", "`etcd`").lacking("etcds", "`etcd-tls`")
}

#[cfg(feature = "postgres")]
fn postgres(schemes: Schemes) -> Schemes {
    ["postgres", "postgresql"].into_iter().fold(schemes, |schemes, scheme| {
        schemes
            .with(scheme, |url| async move { lock_postgres::PostgresBackend::connect(&url).await })
    })
}

#[cfg(not(feature = "postgres"))]
fn postgres(schemes: Schemes) -> Schemes {
    schemes.lacking("postgres", "`postgres`").lacking("postgresql", "`postgres`")
}

#[cfg(feature = "redis")]
fn redis(schemes: Schemes) -> Schemes {
    use lock_redis::RedisBackend;

    let open = |url: String| async move { RedisBackend::connect(&url).await };
    let by_tls = cfg!(any(feature = "redis-rustls", feature = "redis-native-tls"));
    REDIS.into_iter().fold(schemes, |schemes, (scheme, feature, is_there)| {
        match (is_there, by_tls || !scheme.starts_with("rediss")) {
            (true, true) => schemes.with(scheme, open),
            (true, false) => schemes.lacking(scheme, REDIS_TLS),
            (false, _) => schemes.lacking(scheme, feature),
        }
    })
}

#[cfg(not(feature = "redis"))]
fn redis(schemes: Schemes) -> Schemes {
    REDIS.into_iter().fold(schemes, |schemes, (scheme, feature, _)| match scheme {
        "rediss" => schemes.lacking(scheme, REDIS_TLS),
        _ => schemes.lacking(scheme, feature),
    })
}

const REDIS_TLS: &str = "`redis-rustls` or `redis-native-tls`";

/// Schemes of Redis, the feature of each, and true if it is enabled. Schemes with TLS need one more feature.
const REDIS: [(&str, &str, bool); 7] = [
    ("redis", "`redis`", cfg!(feature = "redis")),
    ("redis+unix", "`redis`", cfg!(feature = "redis")),
    ("rediss", "`redis`", cfg!(feature = "redis")),
    ("redis-cluster", "`redis-cluster`", cfg!(feature = "redis-cluster")),
    ("rediss-cluster", "`redis-cluster`", cfg!(feature = "redis-cluster")),
    ("redis-sentinel", "`redis-sentinel`", cfg!(feature = "redis-sentinel")),
    ("rediss-sentinel", "`redis-sentinel`", cfg!(feature = "redis-sentinel")),
];

#[cfg(feature = "redis-quorum")]
fn redis_quorum(schemes: Schemes) -> Schemes {
    use lock_redis::QuorumBackend;

    let open = |url: String| async move { QuorumBackend::connect(&url).await };
    let schemes = schemes.with("redis-quorum", open);
    match cfg!(any(feature = "redis-rustls", feature = "redis-native-tls")) {
        true => schemes.with("rediss-quorum", open),
        false => schemes.lacking("rediss-quorum", REDIS_TLS),
    }
}

#[cfg(not(feature = "redis-quorum"))]
fn redis_quorum(schemes: Schemes) -> Schemes {
    ["redis-quorum", "rediss-quorum"]
        .into_iter()
        .fold(schemes, |schemes, scheme| schemes.lacking(scheme, "`redis-quorum`"))
}

/// Returns the shared store of a name; a new store if the name is empty.
fn memory(url: &str) -> Result<MemoryBackend, LockError> {
    static SHARED: LazyLock<Mutex<HashMap<String, MemoryBackend>>> = LazyLock::new(Mutex::default);
    let name = bare(url)?;
    if name.is_empty() {
        return Ok(MemoryBackend::new());
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(shared.entry(name).or_default().clone())
}

/// Opens the locks in a directory; `filesystem=local` states that no other machine can reach it.
fn files(url: &str) -> Result<FileBackend, LockError> {
    let mut parameters = UrlParameters::of(url);
    let options = match parameters.take("filesystem").as_deref() {
        None => FileOptions::new(),
        Some("local") => FileOptions::new().local_file_system(),
        Some(_) => return Err(config("the parameter `filesystem` of a file URL must be `local`")),
    };
    options.open(directory(&parameters.url())?)
}

/// Returns the directory of `file:DIRECTORY`, `file:///DIRECTORY` or `file://localhost/DIRECTORY`.
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

/// Returns the part after the scheme of a URL without parameters.
fn bare(url: &str) -> Result<String, LockError> {
    // C49: memory and files read no parameter here.
    let parameters = UrlParameters::of(url);
    parameters.refuse_unknown()?;
    let (_, rest) = parameters.base().split_once(':').unwrap_or_default();
    Ok(rest.to_owned())
}
