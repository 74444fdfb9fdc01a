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
        let backend = EtcdBackend::new(self.target()?);
        let answer = backend.server.first_answer(&backend.root.all_claims()).await;
        answer.map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        Ok(backend)
    }
}
