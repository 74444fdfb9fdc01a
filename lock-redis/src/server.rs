//! The server, as the rest of the crate talks to it: commands, and scripts that it learns.

use lock_core::BackendError;
use redis::{Cmd, ToRedisArgs, Value};

use crate::connection::Connection;
use crate::error::{classify, is_unknown_script};
use crate::link::LinkId;
use crate::scripts::Program;

/// One logical server.
pub(crate) struct Server {
    connection: Connection,
}

impl Server {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Sends one command, and waits for its reply.
    pub(crate) async fn send(&self, command: Cmd) -> Result<Value, BackendError> {
        let link = self.connection.link();
        self.connection.send_over(&link, command).await.map_err(classify)
    }

    /// Runs a program.
    pub(crate) async fn run(
        &self,
        program: &Program,
        keys: &[impl ToRedisArgs],
        args: impl ToRedisArgs,
    ) -> Result<Value, BackendError> {
        self.run_over(program, keys, |_| Ok(&args)).await
    }

    /// Runs a program whose arguments depend on the link that the request is sent over.
    ///
    /// A server that does not know the program, as after its restart, is sent it in a second request. That
    /// request may go over another link, so `args` is asked once more.
    pub(crate) async fn run_over<A: ToRedisArgs>(
        &self,
        program: &Program,
        keys: &[impl ToRedisArgs],
        args: impl Fn(LinkId) -> Result<A, BackendError>,
    ) -> Result<Value, BackendError> {
        let link = self.connection.link();
        let by_hash = program.by_hash(keys, args(link.id)?);
        match self.connection.send_over(&link, by_hash).await {
            Err(error) if is_unknown_script(&error) => {
                let link = self.connection.link();
                let by_text = program.by_text(keys, args(link.id)?);
                self.connection.send_over(&link, by_text).await.map_err(classify)
            }
            reply => reply.map_err(classify),
        }
    }
}
