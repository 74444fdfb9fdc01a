//! Attacks and views of other users of the database.

use leasehold::core::backend::DistributedLockExt;
use lock_testkit::LeaseExt;
use std::time::Duration;

use leasehold::core::Ttl;
use leasehold::core::backend::Renewal;
use leasehold::core::{Kinds, OwnerId};
use leasehold::postgres::{PostgresBackend, PostgresOptions};
use leasehold::{DistributedLock, LockClient};
use lock_testkit::{PgBouncer, PostgresServer};

use crate::support::{
    MINUTE, acquiring, client, fresh_name, held, patient, queued, released, served, turn,
};

/// Grants a user the documented rights.
pub(crate) fn let_in(server: &PostgresServer, user: &str) {
    server.psql(&format!(
        "GRANT USAGE ON SCHEMA leasehold TO {user}; \
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO {user}"
    ));
}

/// A user who may create objects in `public`, which everyone may up to Postgres 14, defines operators and
/// functions there that fit our values better than the server's own. They run with the rights of their caller.
const ATTACK: &str = "
    GRANT CREATE ON SCHEMA public TO mallory;
    SET ROLE mallory;
    CREATE TABLE public.loot (who text, what text);
    GRANT ALL ON public.loot TO PUBLIC;
    CREATE FUNCTION public.times(bigint, interval) RETURNS interval LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO public.loot VALUES (current_user, '*'); RETURN interval '1 year'; END $$;
    CREATE OPERATOR public.* (LEFTARG = bigint, RIGHTARG = interval, FUNCTION = public.times);
    CREATE FUNCTION public.cardinality(text[]) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.loot VALUES (current_user, 'cardinality');
        RETURN pg_catalog.cardinality($1); END $$;
    CREATE FUNCTION public.concat_ws(text, text, bigint, bigint, bigint) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO public.loot VALUES (current_user, 'owner ' || $2); RETURN ''; END $$;
    CREATE FUNCTION public.convert_from(bytea, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.loot VALUES (current_user, 'convert_from');
        RETURN pg_catalog.convert_from($1, $2::name); END $$;
    CREATE FUNCTION public.convert_to(text, text) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.loot VALUES (current_user, 'convert_to');
        RETURN pg_catalog.convert_to($1, $2::name); END $$;
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_what_others_create_in_public_is_never_called() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    server.psql("CREATE ROLE app LOGIN; CREATE ROLE mallory");
    let_in(&server, "app");
    server.psql(ATTACK);
    let pooler = PgBouncer::start(&server).await;
    let url = server.url_as("app", "postgres");
    for url in [&url, &pooler.url()] {
        use_all(url).await;
        assert_eq!(server.psql("SELECT * FROM loot"), "", "{url}");
    }
}

/// Acquires, hands over, extends, lists, evicts and releases locks.
pub(crate) async fn use_all(url: &str) {
    let (first, second) = (client(url).await, client(url).await);
    let name = fresh_name();
    let guard = held(&first, &name).await;
    guard.extend(MINUTE).await.expect("still held");
    let waiting = acquiring(&second, patient(&name));
    tokio::time::sleep(Duration::from_millis(100)).await;
    released(guard).await;
    let next = served(waiting).await;
    assert_eq!(first.admin().list(&name, 10).await.expect("a listing").len(), 1);
    first.admin().evict(&name).await.expect("an answer").pop().expect("it was held");
    drop(next);
    if first.capabilities().kinds != Kinds::Exclusive {
        for request in [patient(&name).shared(), patient(&name).permits(1, 2)] {
            released(first.acquire(request).await.expect("it is free")).await;
        }
    }
    turn(&first, &name).await;
}

/// C3, C32: an owner id is a password of its hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c03_owner_ids_are_neither_logged_nor_shown() {
    let statements = "shared_preload_libraries=pg_stat_statements";
    let beside_errors = "log_parameter_max_length_on_error=-1";
    let settings = ["log_statement=all", "track_functions=all", statements, beside_errors];
    let server = PostgresServer::start_with(&settings).await;
    server.psql("CREATE EXTENSION pg_stat_statements; CREATE ROLE app LOGIN");
    drop(client(&server.url()).await);
    let_in(&server, "app");
    // The log also gets the values of prepared statements, unless an operator turns that off.
    server.psql("ALTER ROLE app SET log_parameter_max_length = 0");
    let owners = work_of("app", &server).await;
    server.psql("ALTER ROLE app RESET log_parameter_max_length");
    let owners = owners.into_iter().chain(work_of("postgres", &server).await);
    for owner in owners {
        for shown in [owner.expose(), dashed(owner)] {
            assert!(!server.log().contains(&shown), "{}", server.log());
            for view in ["pg_stat_activity", "pg_stat_statements"] {
                let seen = format!("SELECT count(*) FROM {view} WHERE query LIKE '%' || reverse('");
                let backwards: String = shown.chars().rev().collect();
                assert_eq!(server.psql(&format!("{seen}{backwards}') || '%'")), "0", "{view}");
            }
        }
    }
}

/// Uses a lock in each way as a user, and returns the owners.
async fn work_of(user: &str, server: &PostgresServer) -> Vec<OwnerId> {
    let lock = PostgresBackend::connect(&server.url_as(user, "postgres")).await.expect("let in");
    let (locks, name) = (LockClient::new(lock.clone()), fresh_name());
    let lease = lock.acquire_lease(&patient(&name)).await.expect("a free lock");
    let owner = lease.owner();
    let ttl = Ttl::new(MINUTE).expect("a good TTL");
    lock.extend_one(&Renewal::new(&lease, ttl)).await.expect("an answer");
    // A failed statement is logged regardless of the settings.
    let busy =
        format!("BEGIN; SELECT 1 FROM leasehold.locks_grants WHERE name = '{name}' FOR UPDATE");
    let stranger = jam(server, &busy).await;
    lock.extend_one(&Renewal::new(&lease, ttl)).await.expect_err("the row is busy");
    drop(stranger);
    let busy = format!("BEGIN; SELECT 1 FROM leasehold.locks WHERE name = '{name}' FOR UPDATE");
    let stranger = jam(server, &busy).await;
    let refused = patient(&name).claim().expect("a good claim");
    lock.acquire(&refused, None).await.expect_err("the row is busy");
    drop(stranger);
    let guard = locks.attach(lease).await.expect("still held");
    let waiting = queued(&locks, &locks, patient(&name), &name).await;
    let claim = patient(&name).claim().expect("a good claim");
    lock.withdraw(&claim.name, &[claim.owner]).await.expect("an answer");
    released(guard).await;
    let next = served(waiting).await;
    let next = next.detach().expect("held");
    lock.release(next.name(), next.owner()).await.expect("an answer");
    vec![owner, refused.owner, claim.owner, next.owner()]
}

async fn jam(server: &PostgresServer, sql: &str) -> sqlx::PgConnection {
    let mut stranger =
        <sqlx::PgConnection as sqlx::Connection>::connect(&server.url()).await.expect("let in");
    let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()));
    sql.execute(&mut stranger).await.expect("locked");
    stranger
}

/// Formats an owner as the server does.
fn dashed(owner: OwnerId) -> String {
    let digits = owner.expose();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Users of the locks have no rights on the tables, and nobody else may call the functions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_users_of_locks_have_no_rights_on_the_tables() {
    let server = PostgresServer::start().await;
    drop(client(&server.url()).await);
    server.psql("CREATE ROLE app LOGIN; CREATE ROLE stranger LOGIN");
    let_in(&server, "app");
    use_all(&server.url_as("app", "postgres")).await;
    for refused in [
        "SET ROLE app; SELECT owner FROM leasehold.locks_grants",
        "SET ROLE app; SELECT owner FROM leasehold.locks_holders",
        "SET ROLE app; SELECT owner FROM leasehold.locks_holds",
        "SET ROLE app; UPDATE leasehold.locks_grants SET owner = NULL",
        "SET ROLE app; SELECT leasehold.locks_v1_grant('a', NULL, 9223372036854775807)",
        "GRANT USAGE ON SCHEMA leasehold TO stranger; SET ROLE stranger; \
         SELECT leasehold.locks_v1_release('a', gen_random_uuid(), 1)",
    ] {
        let answer = server.try_psql(refused);
        assert!(answer.is_err_and(|text| text.contains("permission denied")), "{refused}");
    }
}

/// Users who may acquire by the older script may call the functions that a newer script adds. Calls that were
/// revoked from them stay refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_users_of_locks_may_call_what_a_newer_script_adds() {
    let server = PostgresServer::start().await;
    let script = PostgresOptions::new(server.url()).schema_sql().expect("good names");
    server.psql(&script);
    server.psql("CREATE ROLE app LOGIN; CREATE ROLE stranger LOGIN");
    let_in(&server, "app");
    server.psql("DROP FUNCTION leasehold.locks_v1_release_together");
    server.psql("REVOKE EXECUTE ON FUNCTION leasehold.locks_v1_evict FROM app");
    server.psql(&script);
    let count = |whose: &str| {
        let may = format!("has_function_privilege('{whose}', oid, 'EXECUTE')");
        let ours = "pronamespace = 'leasehold'::regnamespace AND prokind = 'f'";
        server.psql(&format!("SELECT count(*) FROM pg_proc WHERE {ours} AND {may}"))
    };
    let may = |function: &str| {
        let function = format!("SELECT oid FROM pg_proc WHERE proname = '{function}'");
        server.psql(&format!("SELECT has_function_privilege('app', ({function}), 'EXECUTE')"))
    };
    assert_eq!((may("locks_v1_release_together"), may("locks_v1_evict")), ("t".into(), "f".into()));
    assert_eq!(count("stranger"), "0");
}
