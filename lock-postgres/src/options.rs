//! Options to reach a server.

use std::fmt;
use std::sync::Arc;

use lock_core::backend::{ClockLimit, Login, UrlParameters};
use lock_core::{CredentialProvider, LockError};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::schema::{self, TableNames};

/// Default for the most connections of requests at a time.
const CONNECTIONS: usize = 8;

/// Default place of locks in a database.
const SCHEMA: &str = "leasehold";
const TABLE: &str = "locks";

/// Options to reach a Postgres server, and the place of locks in it. A URL alone is enough.
///
/// ```no_run
/// # async fn example() -> Result<(), lock_core::LockError> {
/// use lock_postgres::PostgresOptions;
///
/// let options = PostgresOptions::new("postgres://app@db.example/app").schema("app_locks");
/// let lock = options.connect().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until they connect"]
pub struct PostgresOptions {
    target: Target,
    schema: String,
    table: String,
    owner: Option<String>,
    pub(crate) connections: usize,
    pub(crate) clock: ClockLimit,
    pub(crate) login: Login,
}

#[derive(Clone)]
enum Target {
    Url(String),
    Settings(Arc<PgConnectOptions>),
}

impl PostgresOptions {
    /// Creates options for the server at `url`, of the form
    /// `postgres://[user[:password]@]host[:port][/database][?parameter=value&…]`.
    ///
    /// The URL may have the driver's parameters (`sslmode`, `sslrootcert`, `host=/directory/of/a/socket`, …) and
    /// three of our own: `lock_schema`, `lock_table` and `lock_owner`. Two parameters of libpq are accepted and change
    /// nothing: `channel_binding` as `prefer` or `disable`, and `target_session_attrs` as `any`, `read-write` or
    /// `primary`. Any other parameter is refused, and so are several hosts. Sessions are called `leasehold`
    /// unless `application_name` is given; `leasehold::connect` also takes `prefix`.
    pub fn new(url: impl Into<String>) -> Self {
        Self::with(Target::Url(url.into()))
    }

    /// Creates options with the application's settings of the driver: server, database, login, TLS.
    pub fn like(settings: PgConnectOptions) -> Self {
        Self::with(Target::Settings(Arc::new(settings)))
    }

    /// Creates options with the server, database and user of an existing pool.
    ///
    /// Locks do not use the pool's connections but keep some of their own. So an application that has exhausted
    /// its pool can still renew its holds.
    pub fn like_pool(pool: &PgPool) -> Self {
        Self::with(Target::Settings(pool.connect_options()))
    }

    fn with(target: Target) -> Self {
        Self {
            target,
            schema: SCHEMA.to_owned(),
            table: TABLE.to_owned(),
            owner: None,
            connections: CONNECTIONS,
            clock: ClockLimit::ADay,
            login: Login::default(),
        }
    }

    /// Asks `provider` for user and password at each connection, in place of those of the URL.
    pub fn credentials(self, provider: impl CredentialProvider) -> Self {
        Self { login: Login::by(provider), ..self }
    }

    /// Sets the schema of the locks; default `leasehold`. Allowed are a-z, 0-9 and `_`, no digit first, and at
    /// most 63 characters.
    pub fn schema(self, schema: impl Into<String>) -> Self {
        Self { schema: schema.into(), ..self }
    }

    /// Sets the table of the locks; default `locks`. The names of its companions begin with this name. Allowed
    /// are a-z, 0-9 and `_`, no digit first, and at most 40 characters. The name must not end like a companion:
    /// in `_queue`, `_withdrawn`, `_fences`, `_grants`, `_holders`, `_holds` or `_runs`.
    pub fn table(self, table: impl Into<String>) -> Self {
        Self { table: table.into(), ..self }
    }

    /// Trusts a schema whose owner is this role (`lock_owner` in the URL).
    ///
    /// The functions of the schema work with the rights of their owner, who can also replace them. So a client refuses a
    /// schema of an owner that it does not trust: somebody else may have made it first. Trusted are superusers, the role
    /// that connects, this role and, unless a superuser connects, the owner of the database.
    pub fn owner(self, role: impl Into<String>) -> Self {
        Self { owner: Some(role.into()), ..self }
    }

    /// Sets the most connections that requests use at a time; default 8, at least 1. Connections are opened on
    /// demand, and closed after a minute without use. With two or more, one is left to renewals. One more is open
    /// while a request waits for a lock. Attempts at one lock use at most a quarter of the connections (at
    /// least one), so that a lock whose row is jammed leaves the others for other locks.
    pub fn max_connections(self, at_most: usize) -> Self {
        Self { connections: at_most.max(1), ..self }
    }

    /// Grants locks even if the server's clock is more than a day ahead of the client's. The tokens of such a
    /// clock are greater than those of a server whose clock is later corrected.
    pub fn trust_any_clock(self) -> Self {
        Self { clock: ClockLimit::Any, ..self }
    }

    /// Returns one script that creates all objects in the database, for teams that run their own migrations. The
    /// script may be run again, and beside later versions.
    ///
    /// # Errors
    /// [`LockError::Config`] if the URL or a name cannot be used.
    pub fn schema_sql(&self) -> Result<String, LockError> {
        Ok(schema::script(&self.read()?.names))
    }

    /// Reads the URL and checks the names.
    pub(crate) fn read(&self) -> Result<Settings, LockError> {
        let (mut schema, mut table) = (self.schema.clone(), self.table.clone());
        let mut owner = self.owner.clone();
        let server = match &self.target {
            Target::Settings(settings) => (**settings).clone(),
            Target::Url(url) => {
                let mut parameters = UrlParameters::of(url);
                schema = parameters.take("lock_schema").unwrap_or(schema);
                table = parameters.take("lock_table").unwrap_or(table);
                owner = parameters.take("lock_owner").or(owner);
                for (name, good, reason) in OF_LIBPQ {
                    if parameters.take(name).is_some_and(|value| !good.contains(&&*value)) {
                        return Err(unusable(reason));
                    }
                }
                // C49: the driver ignores unknown parameters.
                parameters.refuse_unless(is_known_to_the_driver)?;
                // A URL without a host is good too: a parameter may name a socket.
                let servers = parameters.servers(FORM, 5432);
                if servers.is_ok_and(|servers| servers.addresses.len() > 1) {
                    return Err(unusable(SEVERAL_HOSTS));
                }
                // The driver's own text is left out, since it may repeat parts of the URL and so a password.
                let read = parameters.url().parse::<PgConnectOptions>();
                read.map_err(|_| parameters.malformed(FORM))?
            }
        };
        let names = TableNames::new(&schema, &table)?.owned_by(owner.as_deref());
        if server.get_host().contains(',') {
            return Err(unusable(SEVERAL_HOSTS));
        }
        let server = match server.get_application_name() {
            None | Some("") => server.application_name(APPLICATION),
            Some(_) => server,
        };
        // The driver keeps the brackets of an IPv6 address, and would look for a host with that name.
        let address = server.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let server = match address.map(str::to_owned) {
            Some(address) => server.host(&address),
            None => server,
        };
        // Poolers do not know the parameter that the driver would set.
        Ok(Settings { server: server.extra_float_digits(None), names })
    }
}

/// Default name of the sessions.
const APPLICATION: &str = "leasehold";

const SEVERAL_HOSTS: &str = "it names several hosts: name one, which leads to the primary, such as a DNS name that follows it or a pooler";

/// Parameters of libpq that the driver does not know: the values that change nothing, and the reason why other
/// values are refused.
const OF_LIBPQ: [(&str, &[&str], &str); 3] = [
    (
        "channel_binding",
        &["prefer", "disable"],
        "the driver has no `channel_binding`: leave it out; `sslmode=verify-full` makes sure of the server",
    ),
    (
        "target_session_attrs",
        &["any", "read-write", "primary"],
        "locks need a primary: leave `target_session_attrs` out, and name the primary",
    ),
    (
        "connect_timeout",
        &[],
        "`connect_timeout` is not needed: connecting ends within 10 s; leave it out",
    ),
];

const FORM: &str = "postgres://[user:password@]host[:port][/database]";

/// Parameters that sqlx reads from a URL, beside `options[SETTING]`.
const DRIVER_PARAMETERS: &str = "sslmode ssl-mode sslrootcert ssl-root-cert ssl-ca sslcert ssl-cert sslkey ssl-key statement-cache-capacity \
    host hostaddr port dbname user password application_name options";

/// The options, read and checked.
pub(crate) struct Settings {
    pub(crate) server: PgConnectOptions,
    pub(crate) names: TableNames,
}

/// Returns true if the driver reads a parameter of this name.
fn is_known_to_the_driver(key: &str) -> bool {
    let is_setting = key.starts_with("options[") && key.ends_with(']');
    is_setting || DRIVER_PARAMETERS.split(' ').any(|known| known == key)
}

fn unusable(reason: &str) -> LockError {
    LockError::Config { message: format!("the Postgres URL cannot be used: {reason}") }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_taken_out_of_the_url() {
        let url = "postgres://u:p@h:1/d?sslmode=disable&lock_table=t%5f2";
        let read = PostgresOptions::new(url).read().expect("a good URL");
        assert_eq!(read.names, TableNames::new("leasehold", "t_2").expect("good names"));
        assert_eq!((read.server.get_host(), read.server.get_port()), ("h", 1));
    }

    #[test]
    fn an_ipv6_address_is_read_without_its_brackets() {
        let read = PostgresOptions::new("postgres://u@[::1]:7/d").read().expect("a good URL");
        assert_eq!((read.server.get_host(), read.server.get_port()), ("::1", 7));
    }

    #[test]
    fn c32_a_bad_url_is_refused_without_being_repeated() {
        for bad in [
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?lock_colour=secret",
            "postgres://u:secret@h/d?sslmod=secret",
            "postgres://u:p@h/d#secret",
            "postgres://u:p?secret@h/d",
            "postgres://u:secret@h/d?lock_schema=secret%22",
        ] {
            let options = PostgresOptions::new(bad);
            let error = options.read().map(|_| ()).expect_err(bad);
            assert!(!format!("{error} {error:?} {options:?}").contains("secret"), "{error}");
        }
    }

    /// Each URL is accepted, or refused by a typed error that shows no part of its password.
    #[test]
    fn fuzz_urls() {
        lock_fuzz::check(|(choice, parts)| {
            let url = lock_fuzz::url(&["postgres", "postgresql"], *choice, parts);
            let options = PostgresOptions::new(&url);
            let refused = options.clone().read().err().map(|error| format!("{error} {error:?}"));
            let shown = format!("{options:?} {}", refused.unwrap_or_default());
            lock_fuzz::assert_secret_is_kept(&shown, &url);
        });
    }
}
