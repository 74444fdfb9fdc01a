//! Fences for resources that live in the database.

use std::fmt;

use async_trait::async_trait;
use lock_core::{BackendError, Fence, FenceError, FencingToken, Outcome};
use sqlx::{Error, Executor, PgConnection, Row};

use crate::error::{
    BACKEND, LIMIT_EXCEEDED, RequestError, STALE, classify, code_of, source, unreadable,
};
use crate::reply;
use crate::server::Server;
use crate::sql::Call;

/// The fence of a resource in a Postgres database: a row with the greatest token that the resource has seen.
///
/// Made by [`PostgresBackend::fence`](crate::PostgresBackend::fence). [`advance_in`](Self::advance_in) makes the
/// check a part of the transaction that does the work: advance first, then read, then write.
///
/// ```no_run
/// # async fn sell(pool: &sqlx::PgPool, locks: lock_core::LockClient, lock: lock_postgres::PostgresBackend)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let (guard, fence) = (locks.acquire("stock:42").await?, lock.fence("stock:42"));
///
/// let mut transaction = pool.begin().await?;
/// fence.advance_in(&mut transaction, guard.token()).await?;
/// sqlx::query("UPDATE stock SET left_over = left_over - 1 WHERE item = 42")
///     .execute(&mut *transaction)
///     .await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresFence {
    server: Server,
    resource: String,
}

impl PostgresFence {
    pub(crate) fn new(server: Server, resource: String) -> Self {
        Self { server, resource }
    }

    /// Lets `token` pass unless a greater one was seen, within the caller's own transaction.
    ///
    /// If it passes, nobody else passes this fence until the transaction ends; the mark and the caller's writes
    /// are committed together. If it does not pass, the server has failed the transaction: nothing of it can be
    /// committed, even if the caller ignores this error.
    ///
    /// Call it in the outermost transaction. A savepoint that is rolled back takes the refusal, or the mark, with
    /// it, and the transaction goes on without a fence.
    ///
    /// # Errors
    /// - [`FenceError::Stale`] if a greater token was seen.
    /// - [`FenceError::Backend`] if the server cannot be reached or refuses. In a transaction that is
    ///   `REPEATABLE READ` or `SERIALIZABLE` that may be a conflict (40001): run the transaction again.
    ///
    /// # Cancel safety
    /// After a drop, roll the transaction back; dropping the transaction does so.
    pub async fn advance_in(
        &self,
        transaction: &mut PgConnection,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        // C24: within the caller's transaction, which fails as a whole if the token is stale. The statement is
        // not kept prepared, since a pooler may stand before the caller's connection.
        let call = self.call(token);
        let answer = transaction.execute(call.as_query().persistent(false)).await;
        answer.map(drop).map_err(|error| classify_refusal(token, RequestError::Execute(error)))
    }

    fn call(&self, token: FencingToken) -> Call {
        let token = i64::try_from(token.get()).unwrap_or(i64::MAX);
        self.server.call("advance").text(&self.resource).number(token)
    }
}

impl lock_core::backend::KeepsFences for crate::PostgresBackend {
    type Fence = PostgresFence;

    fn fence_of(&self, resource: &str) -> PostgresFence {
        self.fence(resource)
    }
}

#[async_trait]
impl Fence for PostgresFence {
    async fn advance(&self, token: FencingToken) -> Result<(), FenceError> {
        // The request goes as text, whose settings bound the wait for another transaction. The function leaves
        // that bound to its caller.
        let answer = self.server.connections.request(&self.call(token).as_text()).await;
        answer.map(drop).map_err(|error| classify_refusal(token, error))
    }

    async fn seen(&self) -> Result<Option<FencingToken>, FenceError> {
        const WHAT: &str = "the mark of a fence";
        let call = self.server.call("seen").text(&self.resource);
        let row = reply::only(self.server.ask(&call.as_text()).await?, WHAT)?;
        let seen: Option<i64> = row.try_get(0).map_err(|_| unreadable(WHAT))?;
        Ok(seen.map(reply::fencing_token).transpose()?)
    }
}

fn classify_refusal(token: FencingToken, error: RequestError) -> FenceError {
    if code_of(&error).as_deref() == Some(STALE)
        && let RequestError::Execute(Error::Database(refusal)) = &error
        && let Some(refusal) = refusal.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        && let Some(seen) = refusal.detail().and_then(|seen| seen.parse().ok())
        && let Ok(seen) = reply::fencing_token(seen)
    {
        return FenceError::stale(token, seen);
    }
    let is_too_long = code_of(&error).as_deref() == Some(LIMIT_EXCEEDED);
    match error {
        RequestError::Execute(error) if is_too_long => {
            let context = "the name of the fence's resource is too long for an index of the server";
            BackendError::permanent(BACKEND, Outcome::NotApplied, context, source(error)).into()
        }
        error => FenceError::Backend(classify(error)),
    }
}

impl fmt::Debug for PostgresFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresFence").field("resource", &self.resource).finish_non_exhaustive()
    }
}
