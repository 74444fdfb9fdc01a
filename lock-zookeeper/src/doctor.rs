//! Examines the live ensemble for dangers to locks.

use std::time::Duration;

use lock_core::{BackendError, Finding, OwnerId, Ttl};
use zookeeper_client::{Acl, Error, Permission};

use crate::store::Store;

impl Store {
    pub(crate) async fn examine(&self) -> Result<Vec<Finding>, BackendError> {
        let session = self.sessions.common().await?;
        let members = match session.client().get_config().await {
            Ok((config, _)) => {
                let config = String::from_utf8_lossy(&config).into_owned();
                members(config.lines().filter(|line| line.starts_with("server.")).count())
            }
            Err(error) => Finding::unknown(
                "members",
                format!("the node of the configuration cannot be read: {error}"),
                "let the user read /zookeeper/config",
            ),
        };
        let lengths = match self.sessions.shortest().await {
            Ok(shortest) => sessions(shortest, session.longest_ttl()),
            Err(error) => Finding::unknown("sessions", error.to_string(), "ask again"),
        };
        Ok(vec![members, lengths, self.access().await])
    }

    /// Looks at the rights of others to the nodes that all locks share. A stranger may have made them first, and keeps
    /// the rights that it gave itself.
    async fn access(&self) -> Finding {
        let remedy = "while nobody holds a lock, delete the root with all its nodes, which were created without this user";
        match (self.strangers().await, self.sessions.have_a_user()) {
            (Err(error), _) => Finding::unknown("access", error.to_string(), remedy),
            (Ok(_), false) => Finding::good(
                "access",
                "everybody who can connect may end locks: the URL names no user",
            ),
            (Ok(strangers), true) if strangers.is_empty() => {
                Finding::good("access", "the locks are for their user alone")
            }
            (Ok(strangers), true) => Finding::risk(
                "access",
                format!("others than the URL's user may end locks: {}", strangers.join(", ")),
                remedy,
            ),
        }
    }

    /// Returns the other identities that may change nodes which all locks share, each with its node.
    async fn strangers(&self) -> Result<Vec<String>, BackendError> {
        let (session, probe) = (self.sessions.common().await?, OwnerId::random());
        self.mark(probe).await?;
        let acls = async |path: &str| match session.client().get_acl(path).await {
            Ok((acls, _)) => Ok(acls),
            Err(Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(session.failed(error)),
        };
        let mark = self.root.mark(probe);
        let own = acls(&mark).await?;
        self.delete(&session, &mark).await?;
        self.marks.lock().remove(&mark);
        // Another client may have replaced the floor.
        self.floors.forget();
        let floor = self.floors.get(&session).await?;
        let root = &self.root;
        let shared = [
            root.as_str().to_owned(),
            root.locks(),
            root.marks(),
            root.records(),
            root.floor(),
            floor.path.clone(),
        ];
        let mut strangers = Vec::new();
        for path in shared {
            let acls = acls(&path).await?.into_iter();
            let others = acls.filter(|acl| {
                own.iter().all(|own| own.auth_id() != acl.auth_id()) && may_change(acl)
            });
            strangers.extend(others.map(|acl| format!("{} at {path}", shown(&acl))));
        }
        Ok(strangers)
    }
}

fn may_change(acl: &Acl) -> bool {
    let rights = [Permission::CREATE, Permission::WRITE, Permission::DELETE, Permission::ADMIN];
    rights.into_iter().any(|right| acl.permission().has(right))
}

/// Returns the scheme and the user. The rest of an id of the scheme `digest` is derived from a password (C32).
fn shown(acl: &Acl) -> String {
    let user = acl.id().split(':').next().unwrap_or_default();
    format!("{}:{user}", acl.scheme())
}

fn members(count: usize) -> Finding {
    match count {
        0 | 1 => Finding::risk(
            "members",
            "one member",
            "use three or five: while one server is down nobody gets a lock, and the loss of its disk loses all locks",
        ),
        2 => Finding::risk("members", "two members", "use three: the loss of either is an outage"),
        more => Finding::good("members", format!("{more} members")),
    }
}

fn sessions(shortest: Duration, longest_ttl: Duration) -> Finding {
    let default = Ttl::default().as_duration();
    let granted = format!(
        "TTLs of {longest_ttl:?} are granted, and a hold whose holder died lasts for {shortest:?} or more"
    );
    match longest_ttl >= default {
        true => Finding::good("sessions", granted),
        false => Finding::risk(
            "sessions",
            format!("no TTL above {longest_ttl:?} is granted, and the default is {default:?}"),
            "raise maxSessionTimeout to 40 s or more",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::Health;

    #[test]
    fn c31_what_endangers_locks_is_told() {
        let health = |finding: Finding| finding.health;
        assert_eq!([0, 1, 2].map(|count| health(members(count))), [Health::Risk; 3]);
        assert_eq!(health(members(3)), Health::Good);
        let shortest = Duration::from_secs(4);
        assert_eq!(health(sessions(shortest, Duration::from_secs(30))), Health::Good);
        assert_eq!(health(sessions(shortest, Duration::from_secs(29))), Health::Risk);
    }
}
