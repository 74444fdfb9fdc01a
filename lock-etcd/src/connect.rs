//! Connects with options.

use lock_core::LockError;

use crate::operations::backend::EtcdBackend;
use crate::options::EtcdOptions;

impl EtcdOptions {
    /// Connects, and checks that a member answers.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL, the root or the certificates cannot be used, or the URL asks for TLS and
    ///   it is not compiled in.
    /// - [`LockError::Backend`] if no member can be reached, or we are refused.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(self) -> Result<EtcdBackend, LockError> {
        let target = self.target()?;
        if let Some(certificates) = &target.certificates {
            certificates.read().await?;
        }
        let backend = EtcdBackend::new(target);
        let answer = backend.server.first_answer(&backend.root.all_claims()).await;
        answer.map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        Ok(backend)
    }
}
