//! Dangers to locks on a live server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{join, join_all};
use lock_core::{BackendError, Finding, Health};
use redis::cmd;

use crate::protocol::reply;
use crate::scripts::Servers;
use crate::topology::Topology;
use crate::topology::rights;
use crate::wire::node::Node;

/// The keyspace events (K) that show all changes to a watch: of a string ($), of a sorted set such as the queue (z),
/// of a deletion (g) and of an expiry (x).
const KEY_EVENTS: &str = "K$gxz";

/// Names under which compatible servers report their own version, beside the Redis version that they imitate.
const PRODUCTS: [(&str, &str); 2] =
    [("valkey_version", "Valkey"), ("dragonfly_version", "Dragonfly")];

/// The oldest version that the scripts run on.
const OLDEST: (u32, u32, u32) = (6, 2, 0);

/// The oldest version in which no user can change what the scripts of another do.
const SAFE: (u32, u32, u32) = (6, 2, 7);

/// Checks the servers that keep locks (C31), and reports them as one. `probe` acts as a client, since no command
/// shows the rights of a user.
pub(crate) async fn examine(
    server: &Topology,
    prefix: &str,
    probe: impl Future<Output = Result<(), BackendError>>,
) -> Result<Vec<Finding>, BackendError> {
    let servers = server.servers();
    let (nodes, seen, gone) = look_at_all(server.nodes(), servers).await?;
    let is_replica = seen.iter().any(|seen| seen.is_replica);
    let replicas: Vec<_> = seen.iter().flat_map(|seen| seen.replicas.clone()).collect();
    let mut findings = worst_of_each_check(seen.into_iter().flat_map(|seen| seen.settings));
    findings.extend(gone);
    findings.extend(server.examine().await);
    match is_replica {
        true => {
            let why = "the server takes no locks";
            findings.push(Finding::unknown("rights", why, "examine the primary"));
        }
        false => {
            let probe = nodes[0].in_time(probe);
            findings.extend(rights::examine(&nodes, servers, prefix, probe).await);
        }
    }
    // Each replica uses its own clock once it takes over.
    let clocks = join_all(nodes.iter().chain(&replicas).map(|node| clock(node))).await;
    findings.extend(worst_of_each_check(clocks));
    Ok(findings)
}

/// Asks each server. Returns the answers, and a finding for each server without one.
///
/// # Errors
/// [`BackendError`] if none answered.
async fn look_at_all(
    nodes: Vec<Arc<Node>>,
    servers: Servers,
) -> Result<(Vec<Arc<Node>>, Vec<ServerFacts>, Vec<Finding>), BackendError> {
    let looks = nodes.iter().map(|node| node.in_time(look_at(node, servers)));
    let (mut answered, mut told, mut gone, mut failed) = (vec![], vec![], vec![], None);
    for (node, seen) in nodes.iter().zip(join_all(looks).await) {
        match seen {
            Ok(seen) => {
                answered.push(node.clone());
                told.push(seen);
            }
            Err(error) => {
                let remedy = "start it again: its locks wait until it, or a replica of it, answers";
                gone.push(Finding::risk("server", error.to_string(), remedy));
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if answered.is_empty() => Err(error),
        _ => Ok((answered, told, gone)),
    }
}

/// Facts that one server reports.
struct ServerFacts {
    settings: Vec<Finding>,
    is_replica: bool,
    /// Its replicas.
    replicas: Vec<Arc<Node>>,
}

async fn look_at(server: &Node, servers: Servers) -> Result<ServerFacts, BackendError> {
    let info = match server.send(cmd("INFO")).await {
        Ok(reply) => reply::read::<String>(reply, "INFO")?,
        Err(error) if error.is_transient() => return Err(error),
        Err(_) => {
            let (settings, replicas) = (vec![unseen()], Vec::new());
            return Ok(ServerFacts { settings, is_replica: false, replicas });
        }
    };
    let info = Info::parse(&info);
    let role = match &*server.address {
        "" => role(&info),
        address => role_at(address, &info),
    };
    let (events, sync) =
        join(setting(server, "notify-keyspace-events"), setting(server, "appendfsync")).await;
    let (watching, persistence) = (watching(events?), persistence(&info, sync?.as_deref()));
    let mut settings = vec![version(&info), role, eviction(&info), persistence, watching];
    settings.extend(replicas(&info, servers));
    let settings = settings.into_iter().map(|finding| at(&server.address, finding)).collect();
    let replicas = replicas_of(&info)
        .filter_map(|(host, port)| Some(Arc::new(server.replica(host, port).ok()?)));
    let (replicas, is_replica) = (replicas.collect(), info.get("role") != "master");
    Ok(ServerFacts { settings, is_replica, replicas })
}

/// Returns the addresses of a server's replicas, from lines such as `slave0:ip=10.0.0.2,port=6379,state=online`.
fn replicas_of<'a>(info: &Info<'a>) -> impl Iterator<Item = (&'a str, u16)> {
    (0..).map_while(|number| {
        let line = info.get(&format!("slave{number}"));
        let field = |key| line.split(',').find_map(|field| field.strip_prefix(key));
        Some((field("ip=")?, field("port=")?.parse().ok()?))
    })
}

/// Returns the worst of several findings on each check; the first of those that are equally bad.
fn worst_of_each_check(findings: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    let mut worst: Vec<Finding> = Vec::new();
    for finding in findings {
        match worst.iter_mut().find(|other| other.check == finding.check) {
            None => worst.push(finding),
            Some(other) if badness(&finding) > badness(other) => *other = finding,
            Some(_) => {}
        }
    }
    worst
}

fn badness(finding: &Finding) -> u8 {
    match finding.health {
        Health::Good => 0,
        Health::Unknown => 1,
        Health::Risk => 2,
    }
}

/// Adds the server's address to a bad finding.
fn at(address: &str, mut finding: Finding) -> Finding {
    if finding.health != Health::Good && !address.is_empty() {
        finding.seen = format!("{address}: {}", finding.seen);
    }
    finding
}

fn unseen() -> Finding {
    let why = "the user may not run INFO: version, role, eviction and persistence are not known";
    Finding::unknown("settings", why, "grant the right +info to examine the server")
}

fn version(info: &Info<'_>) -> Finding {
    let version = info.get("redis_version");
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    let mut part = || parts.next().unwrap_or(0);
    let number = (part(), part(), part());
    match number >= OLDEST {
        true if number < SAFE => Finding::risk(
            "version",
            format!(
                "Redis {version} lets a user with EVAL change the scripts of others (CVE-2022-24735)"
            ),
            "use Redis 6.2.7 or newer, or let no other user run scripts",
        ),
        true => Finding::good("version", format!("{}it speaks as Redis {version}", product(info))),
        false => {
            let seen =
                format!("Redis \"{version}\" is older than what the scripts are written for");
            Finding::risk("version", seen, "use Redis 6.2 or newer")
        }
    }
}

/// Returns the name of the server, if it is not Redis itself.
fn product(info: &Info<'_>) -> String {
    let told = PRODUCTS.iter().map(|(key, name)| (name, info.get(key)));
    let product = told.into_iter().find(|(_, version)| !version.is_empty());
    product.map_or_else(String::new, |(name, version)| format!("{name} {version}: "))
}

fn role(info: &Info<'_>) -> Finding {
    // Valkey calls it the server's mode.
    if ["redis_mode", "server_mode"].iter().any(|key| info.get(key) == "sentinel") {
        let seen = "the server is a sentinel, which keeps no locks";
        return Finding::risk("role", seen, "connect by redis-sentinel://");
    }
    if info.get("cluster_enabled") == "1" {
        let seen = "the server is part of a cluster, and this URL reaches only this server";
        return Finding::risk("role", seen, "connect to the cluster: redis-cluster://");
    }
    match (info.get("role"), info.get("connected_slaves")) {
        ("master", "" | "0") => Finding::good("role", "a primary without replicas"),
        ("master", count) => {
            let seen =
                format!("a primary with {count} replicas; a failover can lose the last writes");
            Finding::good("role", seen)
        }
        (role, _) => Finding::risk(
            "role",
            format!("the server is a replica (\"{role}\"): it takes no locks"),
            "use the URL of the primary",
        ),
    }
}

/// Checks the role of a server that a cluster or sentinels name, and that a replica can replace.
fn role_at(address: &str, info: &Info<'_>) -> Finding {
    match (info.get("role"), info.get("connected_slaves")) {
        ("master", "" | "0") => Finding::risk(
            "role",
            "a primary without replicas: its death loses its locks",
            "give each primary a replica on another host",
        ),
        ("master", _) => {
            let seen =
                "each primary has replicas, which may lack its last writes when they take over";
            Finding::good("role", seen)
        }
        _ => Finding::risk(
            "role",
            format!("{address} has just become a replica"),
            "examine again: a failover is under way",
        ),
    }
}

/// P2: a replaced primary that does not know it continues to grant, unless it requires replicas.
fn replicas(info: &Info<'_>, servers: Servers) -> Option<Finding> {
    let is_replaced_by_others = servers == Servers::One && info.get("role") == "master";
    if !is_replaced_by_others || matches!(info.get("connected_slaves"), "" | "0") {
        return None;
    }
    // A server reports them only if it requires them.
    Some(match info.get("min_slaves_good_slaves") {
        "" => Finding::risk(
            "replicas",
            "the primary takes writes without replicas: cut off from its successor, it still grants locks",
            "set min-replicas-to-write 1, and min-replicas-max-lag to a few seconds",
        ),
        _ => Finding::good("replicas", "the primary takes no writes without replicas"),
    })
}

fn eviction(info: &Info<'_>) -> Finding {
    let (policy, limit) = (info.get("maxmemory_policy"), info.get("maxmemory"));
    let limit = if matches!(limit, "" | "0") { "no limit of memory is set now" } else { "" };
    match policy {
        "noeviction" => {
            Finding::good("eviction", "nothing is evicted (maxmemory-policy noeviction)")
        }
        "" => Finding::unknown("eviction", "the server does not tell its policy", "see its manual"),
        policy => {
            let mut seen = format!("maxmemory-policy {policy} may evict locks and token counters");
            if !limit.is_empty() {
                seen += &format!(", although {limit}");
            }
            Finding::risk("eviction", seen, "set maxmemory-policy noeviction")
        }
    }
}

/// `sync` is the setting `appendfsync`, if this user may see it.
fn persistence(info: &Info<'_>, sync: Option<&str>) -> Finding {
    match (info.get("aof_enabled"), sync) {
        ("1", Some("no")) => Finding::risk(
            "persistence",
            "the append-only file is synced when the system likes: a power loss forgets locks that are held",
            "set appendfsync everysec, or always",
        ),
        ("1", _) => Finding::good("persistence", "an append-only file is written"),
        _ => Finding::risk(
            "persistence",
            "no append-only file is written: a restart forgets locks that are held",
            "set appendonly yes, or keep a restarted server out for the longest TTL",
        ),
    }
}

/// Returns a setting of the server; `None` if this user may not see it.
async fn setting(server: &Node, name: &str) -> Result<Option<String>, BackendError> {
    let mut get = cmd("CONFIG");
    get.arg("GET").arg(name);
    match server.send(get).await {
        Ok(reply) => {
            let settings: HashMap<String, String> = reply::read(reply, "CONFIG GET")?;
            Ok(Some(settings.into_values().next().unwrap_or_default()))
        }
        Err(error) if error.is_transient() => Err(error),
        Err(_) => Ok(None),
    }
}

/// C44: checks the delay with which a watch learns of changes. A slow one endangers no lock, so this is never a risk.
fn watching(events: Option<String>) -> Finding {
    let unseen = || {
        "a watch looks once a second, and is told of changes if the server has keyspace events on, which this user \
         may not see"
            .to_owned()
    };
    Finding::good("watching", events.map_or_else(unseen, |events| learns_by(&events)))
}

/// Describes the way in which a watch learns of changes, from the events that the server sends.
fn learns_by(events: &str) -> String {
    // `A` stands for every letter here but `K`.
    let has = |letter| events.contains(letter) || letter != 'K' && events.contains('A');
    match KEY_EVENTS.chars().all(has) {
        true => "a watch sees changes at once".to_owned(),
        false => format!(
            "a watch looks once a second; with notify-keyspace-events {KEY_EVENTS} it sees changes at once"
        ),
    }
}

async fn clock(server: &Node) -> Finding {
    let before = SystemTime::now();
    let reply = server.in_time(server.send(cmd("TIME"))).await;
    let after = SystemTime::now();
    let time = reply.and_then(|reply| reply::read::<(u64, u32)>(reply, "TIME"));
    match time {
        Ok((secs, micros)) => {
            let since_1970 = Duration::new(secs, micros.saturating_mul(1000).min(999_999_999));
            let theirs = UNIX_EPOCH.checked_add(since_1970).unwrap_or(UNIX_EPOCH);
            at(&server.address, Finding::of_clock(before, theirs, after))
        }
        Err(error) => {
            let remedy = "let this host reach it and grant +time, or compare its clock there";
            Finding::unknown("clock", error.to_string(), remedy)
        }
    }
}

/// The facts that a server reports: lines of `key:value`.
struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    /// Returns the value, or an empty text.
    fn get(&self, key: &str) -> &'a str {
        self.0.get(key).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
