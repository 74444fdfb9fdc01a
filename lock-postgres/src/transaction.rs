//! One request over one connection.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, Error, Executor, PgConnection};

use crate::session::KEEP_ALIVE;
use crate::sql::Call;

/// A request to the server.
pub(crate) enum Request<'a> {
    /// A call of a function of the schema.
    Call(&'a Call),
    /// A text that holds no owner id.
    Plain(&'a str),
}

/// Form in which requests are sent over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Prepared statements, in a session that was [set up](set_up) for them. Plain texts are sent as in the other
    /// form.
    Prepared,
    /// Text with [`PREAMBLE`] before it, since the next request may run in another session.
    Text,
}

/// Settings before each request that is sent as text, so that no default of the server, the database or the user
/// changes the request. Each statement must see what the one before it waited for. Only the server's own schema
/// may give a name a meaning. A request that waits for the row of a lock is given up before its caller gives up the try,
/// which lasts a second at most, so that the caller gets the reason; a request that waits for something else, such as the
/// disk, soon after that. The settings last only for the request's own transaction.
const PREAMBLE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET LOCAL search_path = pg_catalog, pg_temp; \
    SET LOCAL statement_timeout = 2000; SET LOCAL lock_timeout = 750; ";

/// Settings of a session of our own, for prepared calls, beside [`KEEP_ALIVE`]; each function sets the rest. Nothing
/// else is set that is the default already. The values of a prepared statement are kept out of the log: beside an error, and
/// else if the user may set that, for which a condition follows. No setting needs the right to use a language.
const SETTINGS: &str = "SET LOCAL search_path = pg_catalog, pg_temp; \
    SET log_parameter_max_length_on_error = 0; \
    SELECT set_config('default_transaction_isolation', 'read committed', false) \
    WHERE current_setting('default_transaction_isolation') <> 'read committed'; \
    SELECT set_config('log_parameter_max_length', '0', false) WHERE ";

/// Condition for setting a parameter that only some users may set, from Postgres 15 on and before.
const MAY_SET: &str = "has_parameter_privilege('log_parameter_max_length', 'SET')";
const IS_SUPERUSER: &str = "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user)";

/// Applies the settings of a session of our own.
pub(crate) async fn set_up(connection: &mut PgConnection) -> Result<(), Error> {
    let grants_parameters = connection.server_version_num().is_some_and(|number| number >= 150_000);
    let may_set = if grants_parameters { MAY_SET } else { IS_SUPERUSER };
    let settings = [KEEP_ALIVE, SETTINGS, may_set].concat();
    connection.execute(sqlx::raw_sql(AssertSqlSafe(settings))).await.map(drop)
}

/// Sends a request in a transaction of its own, and waits for the rows.
pub(crate) async fn send(
    connection: &mut PgConnection,
    form: Form,
    request: &Request<'_>,
) -> Result<Vec<PgRow>, Error> {
    match (form, request) {
        // C3: values go apart from the text.
        (Form::Prepared, Request::Call(call)) => connection.fetch_all(call.as_query()).await,
        (Form::Text, Request::Call(call)) => {
            send_text(connection, PREAMBLE.to_owned() + &call.as_text()).await
        }
        (_, Request::Plain(sql)) => send_text(connection, PREAMBLE.to_owned() + sql).await,
    }
}

async fn send_text(connection: &mut PgConnection, sql: String) -> Result<Vec<PgRow>, Error> {
    connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await
}

/// Reads the answer that an earlier caller left unread; it may be an error.
pub(crate) async fn read_to_the_end(connection: &mut PgConnection) -> Result<(), Error> {
    loop {
        match connection.ping().await {
            Err(error) if keeps_connection(&error) => {}
            read => return read,
        }
    }
}

/// Returns true if the connection is usable after this error and should be used: otherwise a new connection may
/// lead to a server that is no standby.
pub(crate) fn keeps_connection(error: &Error) -> bool {
    let Some(database) = error.as_database_error() else { return false };
    let code = database.code().unwrap_or_default();
    let ends = ["08", "57P", "58", "XX", "25006", "0A000"];
    !ends.iter().any(|class| code.starts_with(class)) && !lost_statement(error)
}

/// Returns true if a prepared statement was not found in its session: a pooler has switched the session.
pub(crate) fn lost_statement(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code == "26000" || code == "42P05")
}
