//! Connects with options.

use lock_core::LockError;

use crate::operations::backend::EtcdBackend;
use crate::options::EtcdOptions;

impl EtcdOptions {
    /// Connects, and checks that a member answers.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL or the root cannot be used, or the URL asks for TLS and
    ///   it is not compiled in.
    /// - [`LockError::Backend`] if no member can be reached, or we are refused.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(self) -> Result<EtcdBackend, LockError> {
        EtcdBackend::with_options(self).await
    }
}
