//! The server, as the rest of the crate talks to it: commands, and programs that it is taught.

use lock_core::BackendError;
use redis::{Cmd, ToRedisArgs, Value};

use crate::connection::Connection;
use crate::error::{classify, is_unknown_program};
use crate::scripts::Program;

/// One logical server.
pub(crate) struct Server {
    connection: Connection,
}

impl Server {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Sends one command and waits for its reply.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, BackendError> {
        self.connection.send(command).await.map_err(classify)
    }

    /// Runs a program, teaching it to a server that does not know it.
    pub(crate) async fn run(
        &self,
        program: &Program,
        keys: &[String],
        args: &[impl ToRedisArgs],
    ) -> Result<Value, BackendError> {
        match self.connection.send(&program.by_hash(keys, args)).await {
            Err(error) if is_unknown_program(&error) => {
                self.send(&program.by_text(keys, args)).await
            }
            reply => reply.map_err(classify),
        }
    }
}
