//! Rights in databases that grant no call by default.

use leasehold::admin::Health;
use leasehold::core::LockAdmin;
use leasehold::postgres::{PostgresBackend, PostgresOptions};
use leasehold::{DistributedLock, Outcome};
use lock_testkit::LeaseExt;
use lock_testkit::PostgresServer;

use crate::security::{let_in, use_all};
use crate::support::{fresh_name, patient};

/// Starts a server with hardened defaults, on which an operator ran the script.
async fn hardened() -> PostgresServer {
    let server = PostgresServer::start().await;
    server.psql("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC");
    server.psql("CREATE ROLE app LOGIN");
    server.psql(&script(&server));
    server
}

pub(crate) fn script(server: &PostgresServer) -> String {
    PostgresOptions::new(server.url()).schema_sql().expect("good names")
}

fn url(server: &PostgresServer) -> String {
    server.url_as("app", "postgres")
}

/// C14: the documented grants are enough to release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_with_hardened_defaults_the_documented_grants_let_users_release() {
    let server = hardened().await;
    let_in(&server, "app");
    let url = url(&server);
    use_all(&url).await;
    let findings = crate::support::client(&url).await.admin().doctor().await.expect("an answer");
    let ills = findings.into_iter().filter(|finding| finding.check == "rights");
    assert_eq!(ills.map(|finding| finding.health).collect::<Vec<_>>(), [Health::Good]);
    // A user who may acquire may also call the additions of a newer script, and stays refused what was refused.
    server.psql("DROP PROCEDURE leasehold.locks_v1_release_and_tell");
    server.psql("REVOKE EXECUTE ON FUNCTION leasehold.locks_v1_evict FROM app");
    server.psql(&script(&server));
    let may = |routine: &str| {
        let routine = format!("(SELECT oid FROM pg_proc WHERE proname = 'locks_v1_{routine}')");
        server.psql(&format!("SELECT has_function_privilege('app', {routine}, 'EXECUTE')"))
    };
    assert_eq!((may("release_and_tell"), may("evict")), ("t".into(), "f".into()));
}

/// C31, C15: the doctor and the error name a missing right, with the statement that grants it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_each_right_that_is_missing_is_named_with_its_remedy() {
    const REMEDY: &str = "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA";
    let server = hardened().await;
    let_in(&server, "app");
    let lock = PostgresBackend::connect(&url(&server)).await.expect("let in");
    let lease = lock.acquire_lease(&patient(&fresh_name())).await.expect("a free lock");
    for (kind, routine) in [
        ("PROCEDURE", "release_and_tell"),
        ("FUNCTION", "release"),
        ("FUNCTION", "extend"),
        ("FUNCTION", "record"),
        ("FUNCTION", "advance"),
    ] {
        server.psql(&format!("REVOKE EXECUTE ON {kind} leasehold.locks_v1_{routine} FROM app"));
        let findings = lock.doctor("").await.expect("an answer");
        let rights = findings.iter().find(|finding| finding.check == "rights").expect("looked at");
        assert_eq!(rights.health, Health::Risk, "{routine}: {rights}");
        let text = rights.to_string();
        assert!(text.contains(&format!("locks_v1_{routine}")) && text.contains(REMEDY), "{text}");
        if routine == "release_and_tell" {
            let refused = lock.release(lease.name(), lease.owner()).await.expect_err("refused");
            assert!(!refused.is_transient() && refused.outcome() == Outcome::NotApplied);
            assert!(refused.to_string().contains(REMEDY), "{refused}");
        }
        server.psql(&format!("GRANT EXECUTE ON {kind} leasehold.locks_v1_{routine} TO app"));
    }
}

/// C15: a user who may acquire but not release is refused at once, before its first lock stays for its TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_user_that_may_acquire_and_not_release_is_refused() {
    let server = hardened().await;
    server.psql(
        "GRANT USAGE ON SCHEMA leasehold TO app; \
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA leasehold TO app",
    );
    let text = crate::support::refusal(&url(&server)).await;
    assert!(text.contains("release_and_tell") && text.contains("ALL ROUTINES"), "{text}");
}

/// C14: calling routines needs no right on their language.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_users_of_locks_need_no_right_on_a_language() {
    let server = hardened().await;
    let_in(&server, "app");
    server.psql("REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC");
    server.psql("ALTER ROLE app SET default_transaction_isolation = 'serializable'");
    use_all(&url(&server)).await;
    assert!(!server.log().contains("permission denied"), "{}", server.log());
}
