//! Connecting: by options, or by a URL alone.

use std::sync::Arc;

use lock_core::{DistributedLock, LockError};

use crate::advisory::AdvisoryBackend;
use crate::options::{Mode, PostgresOptions};
use crate::table::PostgresBackend;

impl PostgresOptions {
    /// Connects to locks that are rows of a table; makes the schema if it is missing and the user may.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL or a name cannot be used, or if the schema is missing and
    ///   cannot be made: the text says how to make it. The URL is not repeated, since it may hold a
    ///   password.
    /// - [`LockError::Backend`] if the server cannot be reached, refuses us or does not answer, or if
    ///   others keep us from making the schema: it gives up within 10 s, and says what it waited for.
    ///
    /// # Cancel safety
    /// Dropping the future closes its connections. A schema may have been made.
    pub async fn connect(self) -> Result<PostgresBackend, LockError> {
        PostgresBackend::with_options(&self).await
    }

    /// Connects to locks that are advisory locks of sessions; makes the schema as
    /// [`connect`](Self::connect) does.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and [`LockError::Config`] if the server is a standby or a pooler
    /// that gives each transaction another session, since neither can keep such a lock.
    ///
    /// # Cancel safety
    /// As [`connect`](Self::connect).
    pub async fn connect_advisory(self) -> Result<AdvisoryBackend, LockError> {
        AdvisoryBackend::with_options(&self).await
    }

    /// Connects in the mode that the URL names with `lock_mode`.
    async fn connect_in_its_mode(self) -> Result<Arc<dyn DistributedLock>, LockError> {
        Ok(match self.read()?.mode {
            Mode::Table => Arc::new(self.connect().await?),
            Mode::Advisory => Arc::new(self.connect_advisory().await?),
        })
    }
}

/// Connects to the locks at `url`, in the mode that it names: `lock_mode=table`, the default, or
/// `lock_mode=advisory`. [`PostgresOptions::new`] says what a URL may hold.
///
/// # Errors
/// As [`PostgresOptions::connect`] and [`PostgresOptions::connect_advisory`].
///
/// # Cancel safety
/// As [`PostgresOptions::connect`].
pub async fn connect(url: &str) -> Result<Arc<dyn DistributedLock>, LockError> {
    PostgresOptions::new(url).connect_in_its_mode().await
}
