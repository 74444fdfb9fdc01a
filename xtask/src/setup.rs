//! Installs the needs of the tests besides cargo: servers, tools and libraries.

use std::env;
use std::path::{Path, PathBuf};

use crate::step::{self, Done, Failure, command, succeeds};

/// A need of the tests, and the packages that provide it.
struct Need {
    what: &'static str,
    is_there: fn() -> bool,
    debian: &'static str,
    homebrew: &'static str,
}

const fn need(
    what: &'static str,
    is_there: fn() -> bool,
    debian: &'static str,
    homebrew: &'static str,
) -> Need {
    Need { what, is_there, debian, homebrew }
}

const NEEDS: &[Need] = &[
    need("redis-server", || has("redis-server"), "redis-server", "redis"),
    need("etcd and etcdctl", || has("etcd") && has("etcdctl"), "etcd-server etcd-client", "etcd"),
    need(
        "PostgreSQL's server and psql",
        || has_postgres_server() && has("psql"),
        "postgresql",
        "postgresql",
    ),
    need("pgbouncer", || has("pgbouncer"), "pgbouncer", "pgbouncer"),
    need(
        "ZooKeeper's server and Java",
        || has("java") && has_zookeeper(),
        "zookeeper default-jre-headless",
        "zookeeper openjdk",
    ),
    need("memcached", || has("memcached"), "memcached", "memcached"),
    need(
        "protoc and its well-known types, for the feature etcd",
        has_protoc,
        "protobuf-compiler libprotobuf-dev",
        "protobuf",
    ),
    need("tmux", || has("tmux"), "tmux", "tmux"),
    need(
        "valgrind, for `cargo xtask instructions`",
        || !cfg!(target_os = "linux") || has("valgrind"),
        "valgrind",
        "",
    ),
    need("openssl, the command", || has("openssl"), "openssl", "openssl"),
    need(
        "OpenSSL's headers and pkg-config, for the feature redis-native-tls",
        has_openssl_headers,
        "libssl-dev pkg-config",
        "",
    ),
    need(
        "Python with pip, which installs the tools of xtask/tools.txt",
        || succeeds(&mut command("python3 -m pip --version")),
        "python3-pip",
        "python",
    ),
    need(
        "systemd-analyze, which verifies the units of `packaging/`",
        || !cfg!(target_os = "linux") || has("systemd-analyze"),
        "systemd",
        "",
    ),
    need(
        "promtool of Prometheus, which tests the rules of `docs/observability/alerts.yaml`",
        || has("promtool"),
        "prometheus",
        "prometheus",
    ),
    need("Node.js, whose programs lock by the command", || has("node"), "nodejs", "node"),
];

/// Installs all missing needs; fails if one is still missing.
pub(crate) fn run() -> Done {
    let missing = missing();
    if missing.is_empty() {
        println!("all servers and libraries for the tests are installed");
        return Ok(());
    }
    install(&missing)?;
    match self::missing() {
        none if none.is_empty() => Ok(()),
        still => Err(by_hand(&still, "still missing")),
    }
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_there)()).collect()
}

fn install(missing: &[&Need]) -> Done {
    if has("apt-get") {
        let apt = format!("{}env DEBIAN_FRONTEND=noninteractive apt-get", become_root()?);
        step::run(&mut command(&format!("{apt} update")))?;
        let install = format!("{apt} install -y --no-install-recommends");
        step::run(command(&install).args(packages(missing, |need| need.debian)))
    } else if has("brew") {
        step::run(command("brew install").args(packages(missing, |need| need.homebrew)))
    } else {
        Err(by_hand(missing, "neither apt-get nor brew is here"))
    }
}

fn packages<'a>(
    missing: &'a [&Need],
    of: fn(&Need) -> &'static str,
) -> impl Iterator<Item = &'static str> + 'a {
    missing.iter().flat_map(move |need| of(need).split_whitespace())
}

/// Returns the word to put before a command that only root may run.
fn become_root() -> Done<&'static str> {
    match (is_root(), has("sudo")) {
        (true, _) => Ok(""),
        (false, true) => Ok("sudo "),
        (false, false) => Err(by_hand(&missing(), "neither root nor sudo")),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Lists exactly the things to install by hand.
fn by_hand(missing: &[&Need], why: &str) -> Failure {
    let mut text = format!("{why}; please install:");
    for need in missing {
        text += &format!("\n  {} (Debian: {})", need.what, need.debian);
    }
    Failure::new(text)
}

/// Debian puts the server outside of the path, in a folder for each version.
fn has_postgres_server() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut servers = versions.map(|version| version.path().join("bin/postgres"));
    has("postgres") || servers.any(|server| server.is_file())
}

/// ZooKeeper is a library, without a program in the path.
fn has_zookeeper() -> bool {
    let folders = ["/usr/share/java/zookeeper.jar", "/usr/share/zookeeper/lib"];
    let kegs = ["/opt/homebrew/opt/zookeeper", "/usr/local/opt/zookeeper"];
    folders.iter().chain(&kegs).any(|path| Path::new(path).exists())
}

/// The compiler is useless without the files that it must find by itself.
fn has_protoc() -> bool {
    let Some(protoc) = program("protoc") else {
        return false;
    };
    let prefix = protoc.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    ["include", "local/include"]
        .iter()
        .any(|include| prefix.join(include).join("google/protobuf/empty.proto").is_file())
}

/// Apple's systems have a TLS library of their own.
fn has_openssl_headers() -> bool {
    cfg!(target_vendor = "apple") || succeeds(&mut command("pkg-config --exists openssl"))
}

fn has(name: &str) -> bool {
    program(name).is_some()
}

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian puts servers in a folder that only root has in its path.
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut places = folders.map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}
