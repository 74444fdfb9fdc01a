//! Installs the needs of the tests besides cargo: servers, tools and libraries.

use std::path::PathBuf;
use std::{env, fs};

use crate::step::{self, Done, Failure, command, succeeds};

/// A need of the tests.
struct Need {
    /// All of them are needed: each is a program, a command that succeeds, or a file with its possible places.
    parts: &'static [&'static [&'static str]],
    /// The packages of Debian.
    debian: &'static str,
    /// The packages of Homebrew; none if macOS does not need them.
    homebrew: &'static str,
}

const NEEDS: &[Need] = &[
    need(&[&["redis-server"]], "redis-server", "redis"),
    need(&[&["etcd"], &["etcdctl"]], "etcd-server etcd-client", "etcd"),
    need(&[&["postgres"], &["psql"]], "postgresql", "postgresql"),
    need(&[&["pgbouncer"]], "pgbouncer", "pgbouncer"),
    need(&[&["java"], ZOOKEEPER], "zookeeper default-jre-headless", "zookeeper openjdk"),
    need(&[&["memcached"]], "memcached", "memcached"),
    need(&[&["protoc"], WELL_KNOWN_TYPES], "protobuf-compiler libprotobuf-dev", "protobuf"),
    need(&[&["tmux"]], "tmux", "tmux"),
    need(&[&["valgrind"]], "valgrind", ""),
    need(&[&["openssl"]], "openssl", "openssl"),
    need(&[&["pkg-config --exists openssl"]], "libssl-dev pkg-config", ""),
    need(&[&["python3 -m pip --version"]], "python3-pip", "python"),
    need(&[&["systemd-analyze"]], "systemd", ""),
    need(&[&["promtool"]], "prometheus", "prometheus"),
    need(&[&["node"]], "nodejs", "node"),
];

const ZOOKEEPER: &[&str] = &[
    "/usr/share/java/zookeeper.jar",
    "/usr/share/zookeeper/lib",
    "/opt/homebrew/opt/zookeeper",
    "/usr/local/opt/zookeeper",
];

/// The feature `etcd` needs these files, which the compiler finds beside its own folder.
const WELL_KNOWN_TYPES: &[&str] =
    &["../include/google/protobuf/empty.proto", "/usr/local/include/google/protobuf/empty.proto"];

const fn need(
    parts: &'static [&'static [&'static str]],
    debian: &'static str,
    homebrew: &'static str,
) -> Need {
    Need { parts, debian, homebrew }
}

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
    let needs = NEEDS.iter().filter(|need| !cfg!(target_os = "macos") || !need.homebrew.is_empty());
    needs.filter(|need| !need.parts.iter().all(|places| is_there(places))).collect()
}

/// Returns true if a program is on the path, a command succeeds, or a file is in one of its places.
fn is_there(places: &[&str]) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian puts servers in folders that are not in everybody's path, and those of Postgres in one for each version.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let of_debian = versions.map(|version| version.path().join("bin")).chain(["/usr/sbin".into()]);
    let folders: Vec<PathBuf> = env::split_paths(&path).chain(of_debian).collect();
    places.iter().any(|place| match place.contains(' ') {
        true => succeeds(&mut command(place)),
        // To join an absolute path gives that path.
        false => folders.iter().any(|folder| folder.join(place).exists()),
    })
}

fn install(missing: &[&Need]) -> Done {
    let packages = |of: fn(&Need) -> &'static str| {
        missing.iter().flat_map(|need| of(need).split_whitespace()).collect::<Vec<_>>()
    };
    if is_there(&["apt-get"]) {
        let sudo = match (rustix::process::geteuid().is_root(), is_there(&["sudo"])) {
            (true, _) => "",
            (false, true) => "sudo ",
            (false, false) => return Err(by_hand(missing, "neither root nor sudo")),
        };
        let apt = format!("{sudo}env DEBIAN_FRONTEND=noninteractive apt-get");
        step::run(&mut command(&format!("{apt} update")))?;
        let install = format!("{apt} install -y --no-install-recommends");
        step::run(command(&install).args(packages(|need| need.debian)))
    } else if is_there(&["brew"]) {
        step::run(command("brew install").args(packages(|need| need.homebrew)))
    } else {
        Err(by_hand(missing, "neither apt-get nor brew is here"))
    }
}

/// Lists exactly the things to install by hand.
fn by_hand(missing: &[&Need], why: &str) -> Failure {
    let mut text = format!("{why}; please install:");
    for need in missing {
        let absent = need.parts.iter().filter(|places| !is_there(places));
        let absent: Vec<_> = absent.map(|places| places.join(" or ")).collect();
        text += &format!("\n  {} (Debian: {})", absent.join(", "), need.debian);
    }
    Failure::new(text)
}
