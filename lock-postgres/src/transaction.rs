//! One request over one connection.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, Error, Executor, PgConnection};

/// What goes before each request, so that no default of the server, the database or the user changes
/// what a request does. Each statement is to see what the one before it waited for. A request that
/// waits for a row of a lock is given up after as long as any caller waits for one try; one that waits
/// for something else, as the disk, soon after. The settings are part of the request's own transaction,
/// and so of no other's.
const PREAMBLE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET LOCAL statement_timeout = 2000; SET LOCAL lock_timeout = 1000; ";

/// Sends a request over a connection of the caller's, in a transaction of its own.
pub(crate) async fn request_on(
    connection: &mut PgConnection,
    sql: &str,
) -> Result<Vec<PgRow>, Error> {
    let sql = format!("{PREAMBLE}{sql}");
    connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await
}

/// Reads the answer for which an earlier caller did not wait, and which may be an error.
pub(crate) async fn read_to_the_end(connection: &mut PgConnection) -> Result<(), Error> {
    loop {
        match connection.ping().await {
            Err(error) if keeps_connection(&error) => {}
            read => return read,
        }
    }
}

/// Whether the server goes on with a connection after this error, and should: a new connection may lead
/// to a server that is no standby.
pub(crate) fn keeps_connection(error: &Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    let code = error.code().unwrap_or_default();
    !["08", "57P", "58", "XX", "25006", "0A000"].iter().any(|class| code.starts_with(class))
}
