//! Schemas that a stranger made before the first client came, or that were changed since.

use leasehold::postgres::PostgresOptions;
use lock_testkit::PostgresServer;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::support::{client, fresh_name, refusal, turn};

/// A role that may create schemas, and a function of its own that makes it a superuser if a superuser runs it.
const MALLORY: &str = "CREATE ROLE mallory LOGIN; CREATE ROLE app LOGIN; CREATE ROLE maker LOGIN";
const RISES: &str = "CREATE SCHEMA mine; GRANT USAGE ON SCHEMA mine TO PUBLIC; \
    CREATE FUNCTION mine.rise() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN \
        ALTER ROLE mallory SUPERUSER; RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 1; END $$; \
    CREATE FUNCTION mine.rises() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        PERFORM mine.rise(); RETURN NEW; END $$;";

/// Schemas of the stranger, each of which runs its function as soon as a client uses the schema.
const SQUATS: [(&str, &str); 6] = [
    ("an empty schema", "CREATE SCHEMA leasehold; GRANT ALL ON SCHEMA leasehold TO PUBLIC"),
    (
        "a table with a trigger",
        "CREATE SCHEMA leasehold; CREATE TABLE leasehold.locks (name text COLLATE \"C\" PRIMARY KEY); \
         CREATE TRIGGER t BEFORE INSERT ON leasehold.locks FOR EACH ROW EXECUTE FUNCTION mine.rises()",
    ),
    (
        "a table with a default",
        "CREATE SCHEMA leasehold; \
         CREATE TABLE leasehold.locks (name text PRIMARY KEY, more bigint DEFAULT mine.rise())",
    ),
    (
        "a view in place of a table",
        "CREATE SCHEMA leasehold; \
         CREATE VIEW leasehold.locks_grants AS SELECT mine.rise() AS served, 'a' AS name",
    ),
    (
        "a format of its own",
        "CREATE SCHEMA leasehold; CREATE FUNCTION leasehold.locks_format() RETURNS bigint \
         LANGUAGE sql AS 'SELECT mine.rise()'",
    ),
    (
        "an earlier format of its own",
        "CREATE SCHEMA leasehold; CREATE FUNCTION leasehold.locks_format() RETURNS bigint \
         LANGUAGE sql AS 'SELECT 0 /* */ + mine.rise()'",
    ),
];

async fn run(url: &str, sql: &str) {
    let mut session = PgConnection::connect(url).await.expect("a connection");
    session.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.expect(sql);
    session.close().await.expect("closed");
}

fn script(server: &PostgresServer) -> String {
    PostgresOptions::new(server.url()).schema_sql().expect("good names")
}

/// Creates a database in which the stranger may make schemas.
async fn database(server: &PostgresServer, name: &str) -> [String; 2] {
    server.psql(&format!("CREATE DATABASE {name}"));
    server.psql(&format!("GRANT CREATE ON DATABASE {name} TO mallory, maker"));
    let [ours, theirs] = ["postgres", "mallory"].map(|user| server.url_as(user, name));
    run(&theirs, RISES).await;
    [ours, theirs]
}

fn is_superuser(server: &PostgresServer) -> bool {
    server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") == "t"
}

/// Connects, and returns the refusal.
async fn refused(server: &PostgresServer, url: &str, what: &str) -> String {
    let text = refusal(url).await;
    assert!(!is_superuser(server), "{what}: the stranger is a superuser");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_a_schema_that_a_stranger_made_first_is_never_used() {
    let server = PostgresServer::start().await;
    server.psql(MALLORY);
    for (n, (what, squat)) in SQUATS.into_iter().enumerate() {
        let [ours, theirs] = database(&server, &format!("d{n}")).await;
        run(&theirs, squat).await;
        let text = refused(&server, &ours, what).await;
        assert!(text.contains("mallory") && text.contains("lock_owner=mallory"), "{what}: {text}");
        assert!(text.contains("DROP SCHEMA leasehold"), "{what}: {text}");
        // The script of an operator stops before it uses anything.
        let mut session = PgConnection::connect(&ours).await.expect("a connection");
        let made = session.execute(sqlx::raw_sql(AssertSqlSafe(script(&server)))).await;
        let said = made.expect_err(what).to_string();
        assert!(said.contains("mallory") && !is_superuser(&server), "{what}: {said}");
    }
}

/// A client that finds its own format makes nothing, and checks all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_a_stranger_who_ran_our_own_script_is_refused() {
    let server = PostgresServer::start().await;
    server.psql(MALLORY);
    let [ours, theirs] = database(&server, "d").await;
    run(&theirs, &script(&server)).await;
    run(
        &theirs,
        "GRANT USAGE ON SCHEMA leasehold TO PUBLIC; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO PUBLIC; \
         ALTER FUNCTION leasehold.locks_v1_acquire SECURITY INVOKER; GRANT ALL ON ALL TABLES IN SCHEMA leasehold TO PUBLIC; \
         CREATE TRIGGER t BEFORE INSERT ON leasehold.locks FOR EACH ROW EXECUTE FUNCTION mine.rises()",
    )
    .await;
    let text = refused(&server, &ours, "its script").await;
    assert!(text.contains("mallory owns") && text.contains("lock_owner=mallory"), "{text}");
}

/// To be a member of a role is no trust: up to Postgres 14 each role can grant itself to others. The owner of a database
/// could replace what a superuser runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_neither_members_nor_superusers_trust_a_stranger() {
    let server = PostgresServer::start().await;
    server.psql(MALLORY);
    let [ours, theirs] = database(&server, "d").await;
    run(&theirs, &script(&server)).await;
    run(
        &theirs,
        "GRANT USAGE ON SCHEMA leasehold TO PUBLIC; \
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO PUBLIC",
    )
    .await;
    server.psql("GRANT mallory TO postgres, app");
    for url in [&ours, &server.url_as("app", "d")] {
        let text = refused(&server, url, "its membership").await;
        assert!(text.contains("mallory owns"), "{text}");
    }
    server.psql("ALTER DATABASE d OWNER TO mallory");
    let text = refused(&server, &ours, "its database").await;
    assert!(text.contains("mallory owns"), "{text}");
    turn(&client(&server.url_as("app", "d")).await, &fresh_name()).await;
}

/// Each change makes the schema run code or use objects that are not ours.
const CHANGES: [(&str, &str); 17] = [
    ("mallory", "ALTER SCHEMA leasehold OWNER TO mallory"),
    ("mallory", "ALTER TABLE leasehold.locks_withdrawn OWNER TO mallory"),
    ("mallory", "ALTER VIEW leasehold.locks_holds OWNER TO mallory"),
    ("mallory", "ALTER FUNCTION leasehold.locks_v1_now_us OWNER TO mallory"),
    ("mallory", "ALTER FUNCTION leasehold.locks_format OWNER TO mallory"),
    (
        "mallory",
        "CREATE FUNCTION leasehold.locks_v1_hand_over(text, leasehold.locks_grants, text, bigint) RETURNS bigint \
         LANGUAGE sql AS 'SELECT mine.rise()'; \
         ALTER FUNCTION leasehold.locks_v1_hand_over(text, leasehold.locks_grants, text, bigint) OWNER TO mallory",
    ),
    ("locks_v1_acquire", "ALTER FUNCTION leasehold.locks_v1_acquire SECURITY INVOKER"),
    (
        "trigger",
        "CREATE TRIGGER t BEFORE INSERT ON leasehold.locks FOR EACH ROW EXECUTE FUNCTION mine.rises()",
    ),
    ("rule", "CREATE RULE r AS ON INSERT TO leasehold.locks_queue DO ALSO SELECT mine.rise()"),
    ("row security", "ALTER TABLE leasehold.locks_runs ENABLE ROW LEVEL SECURITY"),
    ("inherit", "CREATE TABLE child () INHERITS (leasehold.locks_fences)"),
    (
        "label",
        "ALTER TABLE leasehold.locks_grants ALTER label SET DEFAULT query_to_xml('SELECT 1', true, true, '')",
    ),
    (
        "more",
        "ALTER TABLE leasehold.locks ADD more bigint GENERATED ALWAYS AS (length(name)) STORED",
    ),
    (
        "column token",
        "CREATE DOMAIN public.tokens AS bigint CHECK (mine.rise() > 0); \
         ALTER TABLE leasehold.locks_runs ALTER token TYPE public.tokens",
    ),
    ("constraint", "ALTER TABLE leasehold.locks_holders ADD CHECK (mine.rise() > 0)"),
    ("index", "CREATE INDEX i ON leasehold.locks (lower(name))"),
    ("TRIGGER", "GRANT ALL ON ALL TABLES IN SCHEMA leasehold TO app"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_a_schema_with_objects_that_are_not_ours_is_refused() {
    let server = PostgresServer::start().await;
    server.psql(MALLORY);
    let [clean, _] = database(&server, "clean").await;
    drop(client(&clean).await);
    for (n, (named, change)) in CHANGES.into_iter().enumerate() {
        let name = format!("d{n}");
        let copy = format!("CREATE DATABASE {name} TEMPLATE clean");
        lock_testkit::eventually("the template is free", crate::support::LIMIT, async || {
            server.try_psql(&copy).is_ok()
        })
        .await;
        let ours = server.url_as("postgres", &name);
        run(&ours, change).await;
        let text = refused(&server, &ours, change).await;
        assert!(text.contains(named), "{change}: {text}");
    }
}

/// Roles that may own the schema: a superuser, the role of the client, the owner of the database, and the role that the URL
/// names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_the_documented_owners_are_trusted() {
    let server = PostgresServer::start().await;
    server.psql(MALLORY);
    let grants = "GRANT USAGE ON SCHEMA leasehold TO app; \
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO app";
    let use_one = async |url: String| _ = turn(&client(&url).await, &fresh_name()).await;

    // A DBA runs the script, also again.
    let [dba, _] = database(&server, "by_dba").await;
    for _ in 0..2 {
        run(&dba, &script(&server)).await;
    }
    run(&dba, grants).await;
    use_one(server.url_as("app", "by_dba")).await;
    use_one(dba).await;

    // A role of its own makes the schema by connecting, or in a schema that others made for it.
    let [dba, _] = database(&server, "by_maker").await;
    let maker = server.url_as("maker", "by_maker");
    run(&dba, "CREATE SCHEMA leasehold; GRANT ALL ON SCHEMA leasehold TO maker").await;
    use_one(maker.clone()).await;
    use_one(maker.clone()).await;
    run(&dba, "GRANT USAGE ON SCHEMA leasehold TO app").await;
    run(&maker, "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leasehold TO app").await;
    let app = server.url_as("app", "by_maker");
    for other in [&app, &dba] {
        let text = refusal(other).await;
        assert!(text.contains("lock_owner=maker"), "{text}");
        let text = refusal(&format!("{other}?lock_owner=mallory")).await;
        assert!(text.contains("lock_owner=maker"), "{text}");
        use_one(format!("{other}?lock_owner=maker")).await;
    }
    let named = PostgresOptions::new(&app).owner("maker").connect().await.expect("trusted");
    turn(&leasehold::LockClient::new(named), &fresh_name()).await;

    // The database is the maker's; a superuser trusts it only by name.
    server.psql("ALTER DATABASE by_maker OWNER TO maker");
    use_one(app).await;
    refusal(&dba).await;
}

/// Up to Postgres 14 everybody may create objects in `public`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_locks_in_public_of_the_owner_of_the_database() {
    let server = PostgresServer::start().await;
    server.psql(MALLORY);
    let [dba, theirs] = database(&server, "shared").await;
    server.psql("ALTER DATABASE shared OWNER TO maker");
    run(&dba, "GRANT CREATE ON SCHEMA public TO PUBLIC").await;
    let url = format!("{}?lock_schema=public", server.url_as("maker", "shared"));
    for _ in 0..2 {
        turn(&client(&url).await, &fresh_name()).await;
    }
    run(
        &theirs,
        "CREATE FUNCTION public.locks_v1_durably(text) RETURNS bigint LANGUAGE sql AS 'SELECT mine.rise()'",
    )
    .await;
    let text = refusal(&url).await;
    assert!(text.contains("mallory") && text.contains("schema public"), "{text}");
}
