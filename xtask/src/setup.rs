//! What the tests need besides cargo: servers, tools and libraries.

use std::env;
use std::path::{Path, PathBuf};

use crate::step::{self, Done, Failure, command, succeeds};

/// Something the tests need, and the packages that bring it. A manager with an empty list has no
/// package for it, or needs none.
struct Need {
    what: &'static str,
    is_there: fn() -> bool,
    apt: &'static [&'static str],
    dnf: &'static [&'static str],
    apk: &'static [&'static str],
    pacman: &'static [&'static str],
    brew: &'static [&'static str],
}

const NEEDS: &[Need] = &[
    Need {
        what: "redis-server",
        is_there: || program("redis-server").is_some(),
        apt: &["redis-server"],
        dnf: &["redis"],
        apk: &["redis"],
        pacman: &["valkey"],
        brew: &["redis"],
    },
    Need {
        what: "etcd and etcdctl",
        is_there: || program("etcd").is_some() && program("etcdctl").is_some(),
        apt: &["etcd-server", "etcd-client"],
        dnf: &["etcd"],
        apk: &["etcd", "etcd-ctl"],
        pacman: &["etcd"],
        brew: &["etcd"],
    },
    Need {
        what: "PostgreSQL's server and psql",
        is_there: || has_postgres_server() && program("psql").is_some(),
        apt: &["postgresql"],
        dnf: &["postgresql-server"],
        apk: &["postgresql"],
        pacman: &["postgresql"],
        brew: &["postgresql"],
    },
    Need {
        what: "pgbouncer",
        is_there: || program("pgbouncer").is_some(),
        apt: &["pgbouncer"],
        dnf: &["pgbouncer"],
        apk: &["pgbouncer"],
        pacman: &["pgbouncer"],
        brew: &["pgbouncer"],
    },
    Need {
        what: "memcached",
        is_there: || program("memcached").is_some(),
        apt: &["memcached"],
        dnf: &["memcached"],
        apk: &["memcached"],
        pacman: &["memcached"],
        brew: &["memcached"],
    },
    Need {
        what: "protoc and its well-known types, for the feature etcd",
        is_there: has_protoc,
        apt: &["protobuf-compiler", "libprotobuf-dev"],
        dnf: &["protobuf-compiler", "protobuf-devel"],
        apk: &["protobuf-dev"],
        pacman: &["protobuf"],
        brew: &["protobuf"],
    },
    Need {
        what: "tmux",
        is_there: || program("tmux").is_some(),
        apt: &["tmux"],
        dnf: &["tmux"],
        apk: &["tmux"],
        pacman: &["tmux"],
        brew: &["tmux"],
    },
    Need {
        what: "valgrind, for `cargo xtask instructions`",
        is_there: || !cfg!(target_os = "linux") || program("valgrind").is_some(),
        apt: &["valgrind"],
        dnf: &["valgrind"],
        apk: &["valgrind"],
        pacman: &["valgrind"],
        brew: &[],
    },
    Need {
        what: "openssl, the command",
        is_there: || program("openssl").is_some(),
        apt: &["openssl"],
        dnf: &["openssl"],
        apk: &["openssl"],
        pacman: &["openssl"],
        brew: &["openssl"],
    },
    Need {
        what: "OpenSSL's headers and pkg-config, for the feature redis-native-tls",
        is_there: has_openssl_headers,
        apt: &["libssl-dev", "pkg-config"],
        dnf: &["openssl-devel", "pkgconf-pkg-config"],
        apk: &["openssl-dev", "pkgconf"],
        pacman: &["openssl", "pkgconf"],
        brew: &[],
    },
];

/// A package manager.
struct Manager {
    program: &'static str,
    /// Fetches the list of packages, where the install would not.
    update: Option<&'static str>,
    install: &'static str,
    as_root: bool,
    packages: fn(&Need) -> &'static [&'static str],
}

const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        update: Some("env DEBIAN_FRONTEND=noninteractive apt-get update"),
        install: "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends",
        as_root: true,
        packages: |need| need.apt,
    },
    Manager {
        program: "dnf",
        update: None,
        install: "dnf install -y",
        as_root: true,
        packages: |need| need.dnf,
    },
    Manager {
        program: "apk",
        update: None,
        install: "apk add --no-cache",
        as_root: true,
        packages: |need| need.apk,
    },
    Manager {
        program: "pacman",
        update: None,
        install: "pacman -Sy --needed --noconfirm",
        as_root: true,
        packages: |need| need.pacman,
    },
    Manager {
        program: "brew",
        update: None,
        install: "brew install",
        as_root: false,
        packages: |need| need.brew,
    },
];

/// Installs what is missing; fails if something still is.
pub(crate) fn run() -> Done {
    let missing = missing();
    if missing.is_empty() {
        println!("all servers and libraries for the tests are installed");
        return Ok(());
    }
    let manager = MANAGERS
        .iter()
        .find(|manager| program(manager.program).is_some())
        .ok_or_else(|| by_hand(&missing, "no package manager that we know is here"))?;
    install(manager, &missing)?;
    match self::missing() {
        none if none.is_empty() => Ok(()),
        still => Err(by_hand(&still, "still missing")),
    }
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_there)()).collect()
}

fn install(manager: &Manager, missing: &[&Need]) -> Done {
    let packages: Vec<_> = missing.iter().flat_map(|need| (manager.packages)(need)).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let root = become_root(manager)?;
    if let Some(update) = manager.update {
        step::run(&mut command(&format!("{root}{update}")))?;
    }
    step::run(command(&format!("{root}{}", manager.install)).args(packages))
}

/// What to put before a command that only root may run.
fn become_root(manager: &Manager) -> Done<&'static str> {
    if !manager.as_root || is_root() {
        return Ok("");
    }
    match program("sudo") {
        Some(_) => Ok("sudo "),
        None => Err(by_hand(&missing(), "neither root nor sudo")),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says exactly what a person has to install.
fn by_hand(missing: &[&Need], why: &str) -> Failure {
    let mut text = format!("{why}; please install:");
    for need in missing {
        text += &format!("\n  {} (Debian: {})", need.what, need.apt.join(" "));
    }
    Failure::new(text)
}

/// Debian keeps the server out of the path, in a folder for each version.
fn has_postgres_server() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut servers = versions.map(|version| version.path().join("bin/postgres"));
    program("postgres").is_some() || servers.any(|server| server.is_file())
}

/// The compiler is of no use without the files that it is to find by itself.
fn has_protoc() -> bool {
    let Some(protoc) = program("protoc") else {
        return false;
    };
    let prefix = protoc.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    ["include", "local/include"]
        .iter()
        .any(|include| prefix.join(include).join("google/protobuf/empty.proto").is_file())
}

/// Apple's systems bring a TLS library of their own.
fn has_openssl_headers() -> bool {
    cfg!(target_vendor = "apple") || succeeds(&mut command("pkg-config --exists openssl"))
}

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian puts servers where only root looks.
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut places = folders.map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}
