//! Installs the needs of the tests besides cargo: servers, tools and libraries.

use std::env;
use std::path::{Path, PathBuf};

use crate::step::{self, Done, Failure, command, succeeds};

/// A need of the tests, and the packages that provide it with each of [`MANAGERS`]: none if a manager has or
/// needs no package for it.
struct Need {
    what: &'static str,
    is_there: fn() -> bool,
    packages: [&'static str; 5],
}

const NEEDS: &[Need] = &[
    Need {
        what: "redis-server",
        is_there: || program("redis-server").is_some(),
        packages: ["redis-server", "redis", "redis", "valkey", "redis"],
    },
    Need {
        what: "etcd and etcdctl",
        is_there: || program("etcd").is_some() && program("etcdctl").is_some(),
        packages: ["etcd-server etcd-client", "etcd", "etcd etcd-ctl", "etcd", "etcd"],
    },
    Need {
        what: "PostgreSQL's server and psql",
        is_there: || has_postgres_server() && program("psql").is_some(),
        packages: ["postgresql", "postgresql-server", "postgresql", "postgresql", "postgresql"],
    },
    Need {
        what: "pgbouncer",
        is_there: || program("pgbouncer").is_some(),
        packages: ["pgbouncer", "pgbouncer", "pgbouncer", "pgbouncer", "pgbouncer"],
    },
    Need {
        what: "ZooKeeper's server and Java",
        is_there: || program("java").is_some() && has_zookeeper(),
        packages: [
            "zookeeper default-jre-headless",
            "",
            "zookeeper openjdk17-jre-headless",
            "",
            "zookeeper openjdk",
        ],
    },
    Need {
        what: "memcached",
        is_there: || program("memcached").is_some(),
        packages: ["memcached", "memcached", "memcached", "memcached", "memcached"],
    },
    Need {
        what: "protoc and its well-known types, for the feature etcd",
        is_there: has_protoc,
        packages: [
            "protobuf-compiler libprotobuf-dev",
            "protobuf-compiler protobuf-devel",
            "protobuf-dev",
            "protobuf",
            "protobuf",
        ],
    },
    Need {
        what: "tmux",
        is_there: || program("tmux").is_some(),
        packages: ["tmux", "tmux", "tmux", "tmux", "tmux"],
    },
    Need {
        what: "valgrind, for `cargo xtask instructions`",
        is_there: || !cfg!(target_os = "linux") || program("valgrind").is_some(),
        packages: ["valgrind", "valgrind", "valgrind", "valgrind", ""],
    },
    Need {
        what: "openssl, the command",
        is_there: || program("openssl").is_some(),
        packages: ["openssl", "openssl", "openssl", "openssl", "openssl"],
    },
    Need {
        what: "OpenSSL's headers and pkg-config, for the feature redis-native-tls",
        is_there: has_openssl_headers,
        packages: [
            "libssl-dev pkg-config",
            "openssl-devel pkgconf-pkg-config",
            "openssl-dev pkgconf",
            "openssl pkgconf",
            "",
        ],
    },
    Need {
        what: "Python with pip, which installs the tools of xtask/tools.txt",
        is_there: || succeeds(&mut command("python3 -m pip --version")),
        packages: ["python3-pip", "python3-pip", "py3-pip", "python-pip", "python"],
    },
    Need {
        what: "systemd-analyze, which verifies the units of `packaging/`",
        // Alpine has none; the test fails there.
        is_there: || {
            let is_needed = cfg!(target_os = "linux") && program("apk").is_none();
            !is_needed || program("systemd-analyze").is_some()
        },
        packages: ["systemd", "systemd", "", "systemd", ""],
    },
    Need {
        what: "promtool of Prometheus, which tests the rules of `docs/observability/alerts.yaml`",
        is_there: || program("promtool").is_some(),
        packages: [
            "prometheus",
            "golang-github-prometheus",
            "prometheus",
            "prometheus",
            "prometheus",
        ],
    },
    Need {
        what: "Node.js, whose programs lock by the command",
        is_there: || program("node").is_some(),
        packages: ["nodejs", "nodejs", "nodejs", "nodejs", "node"],
    },
];

/// A package manager: its commands to update and to install, and true if only root may run it.
struct Manager {
    program: &'static str,
    update: Option<&'static str>,
    install: &'static str,
    as_root: bool,
}

const fn manager(program: &'static str, install: &'static str) -> Manager {
    Manager { program, update: None, install, as_root: true }
}

const MANAGERS: [Manager; 5] = [
    Manager {
        update: Some("env DEBIAN_FRONTEND=noninteractive apt-get update"),
        ..manager(
            "apt-get",
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends",
        )
    },
    manager("dnf", "dnf install -y"),
    manager("apk", "apk add --no-cache"),
    manager("pacman", "pacman -Sy --needed --noconfirm"),
    Manager { as_root: false, ..manager("brew", "brew install") },
];

/// Installs all missing needs; fails if one is still missing.
pub(crate) fn run() -> Done {
    let missing = missing();
    if missing.is_empty() {
        println!("all servers and libraries for the tests are installed");
        return Ok(());
    }
    let manager = (MANAGERS.iter().position(|manager| program(manager.program).is_some()))
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

/// Installs with the manager of this number.
fn install(number: usize, missing: &[&Need]) -> Done {
    let manager = &MANAGERS[number];
    let packages: Vec<_> =
        missing.iter().flat_map(|need| need.packages[number].split_whitespace()).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let root = become_root(manager)?;
    if let Some(update) = manager.update {
        step::run(&mut command(&format!("{root}{update}")))?;
    }
    step::run(command(&format!("{root}{}", manager.install)).args(packages))
}

/// Returns the word to put before a command that only root may run.
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

/// Lists exactly the things to install by hand.
fn by_hand(missing: &[&Need], why: &str) -> Failure {
    let mut text = format!("{why}; please install:");
    for need in missing {
        text += &format!("\n  {} (Debian: {})", need.what, need.packages[0]);
    }
    Failure::new(text)
}

/// Debian puts the server outside of the path, in a folder for each version.
fn has_postgres_server() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut servers = versions.map(|version| version.path().join("bin/postgres"));
    program("postgres").is_some() || servers.any(|server| server.is_file())
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

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian puts servers in a folder that only root has in its path.
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut places = folders.map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}
