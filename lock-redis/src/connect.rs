//! How a store is connected.

use lock_core::LockError;
use redis::cmd;

use crate::backend::RedisBackend;
use crate::connection::Connection;
use crate::options::RedisOptions;
use crate::server::Server;

impl RedisBackend {
    /// Connects to the server at `url`, and makes sure that it answers.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used. The text does not repeat it, since it may hold
    ///   a password.
    /// - [`LockError::Backend`] if the server cannot be reached, or refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        RedisOptions::new(url).connect().await
    }
}

impl RedisOptions {
    /// Connects, and makes sure that the server answers.
    ///
    /// # Errors
    /// - [`LockError::Config`] if the URL cannot be used, has a parameter that is not known, or asks for
    ///   TLS, which is not compiled in.
    /// - [`LockError::Backend`] if the server cannot be reached, or refuses us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(self) -> Result<RedisBackend, LockError> {
        let client = self.client()?;
        let server = Server::new(Connection::new(client.clone()));
        let answer = server.send(cmd("PING")).await;
        answer.map_err(|source| LockError::Backend { operation: "connect", name: None, source })?;
        Ok(RedisBackend::new(server, client, self.clock))
    }
}
