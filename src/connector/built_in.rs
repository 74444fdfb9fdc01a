//! The backends of this crate.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use lock_core::backend::UrlParameters;
use lock_core::{LockError, MemoryBackend};
use lock_file::{FileBackend, FileOptions};
use percent_encoding::percent_decode_str;

use super::schemes::{Schemes, config};

/// Adds schemes to a list. A scheme whose feature is not enabled gets the feature's name.
macro_rules! add {
    ($schemes:ident: $($options:ty, $connect:ident => $($scheme:literal)+, if $feature:literal, else $lacks:literal;)+) => {$(
        #[cfg(feature = $feature)]
        let $schemes = $schemes$(.with($scheme, |url: String, provider| async move {
            let options = <$options>::new(url);
            match provider {
                Some(provider) => options.credentials(provider).$connect().await,
                None => options.$connect().await,
            }
        }))+;
        #[cfg(not(feature = $feature))]
        let $schemes = $schemes$(.lacking($scheme, $lacks))+;
    )+};
}

/// Adds all backends.
pub(super) fn all() -> Schemes {
    let schemes = Schemes::default()
        .with("memory", |url, _| async move { memory(&url) })
        .with("file", |url, _| async move { files(&url) });
    add! { schemes:
        lock_etcd::EtcdOptions, connect => "etcd", if "etcd", else "`etcd`";
        lock_etcd::EtcdOptions, connect => "etcds", if "etcd-tls", else "`etcd-tls`";
        lock_postgres::PostgresOptions, connect => "postgres" "postgresql", if "postgres", else "`postgres`";
        lock_redis::RedisOptions, connect => "redis" "redis+unix", if "redis", else "`redis`";
        // Without TLS, the backend itself refuses the URL.
        lock_redis::RedisOptions, connect => "rediss", if "redis", else "`redis-rustls` or `redis-native-tls`";
        lock_redis::RedisOptions, connect => "redis-cluster" "rediss-cluster",
            if "redis-cluster", else "`redis-cluster`";
        lock_redis::RedisOptions, connect => "redis-sentinel" "rediss-sentinel",
            if "redis-sentinel", else "`redis-sentinel`";
        lock_redis::RedisOptions, connect_quorum => "redis-quorum" "rediss-quorum",
            if "redis-quorum", else "`redis-quorum`";
        lock_zookeeper::ZooKeeperOptions, connect => "zookeeper", if "zookeeper", else "`zookeeper`";
        lock_zookeeper::ZooKeeperOptions, connect => "zookeepers", if "zookeeper-tls", else "`zookeeper-tls`";
    }
    schemes
}

/// Returns the shared store of a name, which lasts as long as its clients; a new store if the name is empty.
fn memory(url: &str) -> Result<Arc<MemoryBackend>, LockError> {
    static SHARED: LazyLock<Mutex<HashMap<String, Weak<MemoryBackend>>>> =
        LazyLock::new(Mutex::default);
    let name = bare(url)?;
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = shared.get(&name).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let store = Arc::new(MemoryBackend::new());
    if !name.is_empty() {
        shared.retain(|_, store| store.strong_count() > 0);
        shared.insert(name, Arc::downgrade(&store));
    }
    Ok(store)
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
