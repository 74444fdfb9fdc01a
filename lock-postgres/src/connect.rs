//! Connecting by options.

use lock_core::LockError;

use crate::options::PostgresOptions;
use crate::table::PostgresBackend;

impl PostgresOptions {
    /// Connects to locks that are rows of a table; makes the schema if it is missing and the user may.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL or a name cannot be used. The error does not repeat the URL, which may
    ///   hold a password.
    /// - [`LockError::Backend`] if the server cannot be reached, refuses the client or does not answer; if the
    ///   schema is missing and cannot be made (the text says how to make it); or if other transactions keep the
    ///   client from making it: it gives up within 10 s, and names the step that waited.
    ///
    /// # Cancel safety
    /// Dropping the future closes its connections. A schema may have been made.
    pub async fn connect(self) -> Result<PostgresBackend, LockError> {
        PostgresBackend::with_options(&self).await
    }
}
