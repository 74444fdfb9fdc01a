//! Dangers to locks on a live cluster.

use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Client, GetOptions, SortOrder, SortTarget, StatusResponse,
};
use futures_util::future::join_all;
use lock_core::backend::probe;
use lock_core::{BackendError, FencingToken, Finding};
use tokio::time::timeout;

use crate::operations::backend::EtcdBackend;
use crate::wire::server::Server;

/// Longest time for one member to report its state.
const MEMBER_LIMIT: Duration = Duration::from_millis(800);

/// Older versions may confirm an expired lease by a keep-alive, and their deposed leader may revoke leases early
/// (etcd#14758, #15247).
const SOUND_LEASES: [(u32, u32, u32); 3] = [(3, 4, 38), (3, 5, 23), (3, 6, 5)];

/// Size near the quota of the store, at which it accepts no more writes. The default quota is 2 GiB.
const NEAR_QUOTA: i64 = 1_700_000_000;

/// Seconds of a lease that count as short: with an election time-out of 2 s no lease can be shorter.
const SHORT: i64 = 3;

/// Checks each named member, and their agreement (C31).
pub(crate) async fn examine(cluster: &EtcdBackend) -> Result<Vec<Finding>, BackendError> {
    let server = &cluster.server;
    let members = (0..server.members()).map(|number| status(server, number));
    let statuses: Vec<_> = join_all(members).await;
    if statuses.iter().all(Option::is_none) {
        // No member answers: returns the reason.
        server.request(|mut client| async move { client.status().await }).await?;
    }
    let reached: Vec<StatusResponse> = statuses.iter().flatten().cloned().collect();
    let mut findings = vec![reach(reached.len(), statuses.len())];
    findings.extend(reached.iter().map(version).collect::<Vec<_>>());
    findings.dedup();
    findings.push(leader(&reached));
    findings.push(space(&reached));
    findings.push(size(server).await);
    findings.push(alarms(server).await);
    let start = cluster.root.as_str();
    let remedy = format!("grant the user readwrite on all keys that start with {start}/");
    findings.push(probe(cluster, "", &remedy).await);
    findings.push(tokens(cluster).await);
    findings.push(shortest_lease(cluster).await);
    Ok(findings)
}

async fn status(server: &Server, number: usize) -> Option<StatusResponse> {
    let status = async { server.connect(number).await?.status().await };
    timeout(MEMBER_LIMIT, status).await.ok()?.ok()
}

async fn size(server: &Server) -> Finding {
    const CHECK: &str = "members";
    let list = |mut client: Client| async move { client.member_list().await };
    let members = match server.request(list).await {
        Ok(list) => list.members().iter().filter(|member| !member.is_learner()).count(),
        Err(error) => return refused(CHECK, error, "give the user the right to list members"),
    };
    match members {
        3.. if members % 2 == 1 => Finding::good(CHECK, format!("{members} members vote")),
        _ => Finding::risk(
            CHECK,
            format!("{members} members vote"),
            "run three or five members, so that the loss of one stops no lock and loses no data",
        ),
    }
}

async fn alarms(server: &Server) -> Finding {
    const CHECK: &str = "alarms";
    let list = |mut client: Client| async move {
        client.alarm(AlarmAction::Get, AlarmType::None, None).await
    };
    match server.request(list).await {
        Ok(answer) if answer.alarms().is_empty() => Finding::good(CHECK, "none is raised"),
        Ok(answer) => Finding::risk(
            CHECK,
            format!("raised: {}", kinds(answer.alarms())),
            "NOSPACE: compact, defragment, `etcdctl alarm disarm`; CORRUPT: replace the member",
        ),
        Err(error) => refused(CHECK, error, "look with `etcdctl alarm list`"),
    }
}

/// Compares the cluster's present tokens with those that its fences have seen.
async fn tokens(cluster: &EtcdBackend) -> Finding {
    const CHECK: &str = "tokens";
    let greatest = async {
        cluster.floors.forget();
        let floor = cluster.floors.get().await?;
        let marks = cluster.root.mark("");
        let options = GetOptions::new().with_prefix().with_limit(1);
        let options = options.with_sort(SortTarget::Value, SortOrder::Descend);
        let found = cluster.server.get(marks, options).await?;
        let now = floor.token(found.header().map_or(0, |header| header.revision()))?;
        let mark = found.kvs().first().and_then(|mark| mark.value_str().ok()?.parse().ok());
        Ok::<(FencingToken, Option<FencingToken>), BackendError>((now, mark))
    };
    match greatest.await {
        Ok((now, Some(mark))) if mark > now => Finding::risk(
            CHECK,
            format!("a fence in the cluster has seen {mark}, and the next tokens are near {now}"),
            format!(
                "a backup was restored: stop the clients, `etcdctl del {}/floor`, and start them",
                cluster.root.as_str()
            ),
        ),
        Ok((now, _)) => Finding::good(CHECK, format!("the next are near {now}")),
        Err(error) => refused(CHECK, error, "grant the user readwrite on the keys below the root"),
    }
}

/// Finds the least TTL that the cluster grants: one and a half election time-outs.
async fn shortest_lease(cluster: &EtcdBackend) -> Finding {
    const CHECK: &str = "shortest lease";
    let grant = |mut client: Client| async move {
        let granted = client.lease_grant(1, None).await?;
        client.lease_revoke(granted.id()).await?;
        Ok(granted.ttl())
    };
    match cluster.server.request(grant).await {
        Ok(ttl) if ttl <= SHORT => Finding::good(CHECK, format!("{ttl} s")),
        Ok(ttl) => Finding::risk(
            CHECK,
            format!("{ttl} s: a dead client delays the others for at least this long"),
            "lower the election time-out of the members to 2 s or less",
        ),
        Err(error) => Finding::unknown(
            CHECK,
            format!("no lease was granted: {error}"),
            "look at the members' logs",
        ),
    }
}

fn reach(reached: usize, named: usize) -> Finding {
    const CHECK: &str = "reach";
    let seen = format!("{reached} of {named} members that were named answer");
    match reached == named {
        true => Finding::good(CHECK, seen),
        false => Finding::risk(CHECK, seen, "start the others, or correct the URL"),
    }
}

fn version(status: &StatusResponse) -> Finding {
    const CHECK: &str = "version";
    match has_sound_leases(status.version()) {
        _ if is_too_old(status.version()) => Finding::risk(
            CHECK,
            format!("{} is older than 3.4, which the locks need", status.version()),
            "update to 3.4.38, 3.5.23, 3.6.5 or newer",
        ),
        Some(true) => Finding::good(CHECK, status.version()),
        Some(false) => Finding::risk(
            CHECK,
            format!(
                "{} may confirm a lease that has expired, and may end leases early while leadership \
                 changes",
                status.version()
            ),
            "update to 3.4.38, 3.5.23, 3.6.5 or newer, and let resources check tokens",
        ),
        None => Finding::unknown(CHECK, format!("{:?}", status.version()), "look what it is"),
    }
}

fn is_too_old(version: &str) -> bool {
    numbers(version).is_some_and(|version| version < (3, 4, 0))
}

fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let release = version.split(['-', '+']).next()?;
    let mut parts = release.split('.').map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

fn has_sound_leases(version: &str) -> Option<bool> {
    let version = numbers(version)?;
    let same_minor = SOUND_LEASES.iter().find(|sound| (sound.0, sound.1) == (version.0, version.1));
    Some(same_minor.map_or(version > SOUND_LEASES[2], |sound| version >= *sound))
}

fn leader(statuses: &[StatusResponse]) -> Finding {
    const CHECK: &str = "leader";
    let mut leaders: Vec<u64> = statuses.iter().map(StatusResponse::leader).collect();
    leaders.sort_unstable();
    leaders.dedup();
    match leaders[..] {
        [leader] if leader != 0 => Finding::good(CHECK, format!("{leader:x}")),
        _ => Finding::risk(
            CHECK,
            "the members do not agree on a leader",
            "look at the network between them, and at the time their disks take",
        ),
    }
}

fn space(statuses: &[StatusResponse]) -> Finding {
    const CHECK: &str = "space";
    let largest = statuses.iter().map(StatusResponse::db_size).max().unwrap_or(0);
    let quota = statuses.iter().map(StatusResponse::db_size_quota).find(|quota| *quota > 0);
    let seen = format!("{} MB are used", largest / 1_000_000);
    match largest < quota.map_or(NEAR_QUOTA, |quota| quota / 10 * 8) {
        true => Finding::good(CHECK, seen),
        false => Finding::risk(
            CHECK,
            seen,
            "at its quota the store takes no more writes: compact, defragment, or raise \
             --quota-backend-bytes",
        ),
    }
}

/// Returns the kinds of alarms as `etcdctl` writes them.
fn kinds(alarms: &[etcd_client::AlarmMember]) -> String {
    let kinds: Vec<_> =
        alarms.iter().map(|alarm| format!("{:?}", alarm.alarm()).to_uppercase()).collect();
    kinds.join(", ")
}

fn refused(check: &'static str, error: BackendError, remedy: &str) -> Finding {
    Finding::unknown(check, format!("the server does not tell: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c31_versions_that_are_too_old_are_known() {
        for (version, too_old) in
            [("3.3.27", true), ("2.3.8", true), ("3.4.0", false), ("3.10.0", false), ("3", false)]
        {
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
    }

    #[test]
    fn c31_versions_with_unsound_leases_are_known() {
        for sound in ["3.4.38", "3.4.40", "3.5.23", "3.6.5", "3.7.0", "4.0.0", "3.6.5-rc.1"] {
            assert_eq!(has_sound_leases(sound), Some(true), "{sound}");
        }
        for unsound in ["3.4.23", "3.5.22", "3.6.4", "3.3.27", "2.3.8"] {
            assert_eq!(has_sound_leases(unsound), Some(false), "{unsound}");
        }
        for unknown in ["", "3", "3.x.1", "not decided"] {
            assert_eq!(has_sound_leases(unknown), None, "{unknown}");
        }
    }
}
