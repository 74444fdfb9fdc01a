//! The server, as the rest of the crate talks to it: commands, and scripts that it learns.

use lock_core::BackendError;
use redis::{Cmd, ToRedisArgs, Value, cmd};

use crate::connection::Connection;
use crate::error::{classify, is_unknown_script};
use crate::link::LinkId;
use crate::reply::read;
use crate::scripts::Program;

/// How many keys one step of a listing looks at.
const SCAN_STEP: usize = 1000;

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
        self.send_telling_link(command).await.map(|(_, reply)| reply)
    }

    /// As [`send`](Self::send). Tells over which link it was sent.
    pub(crate) async fn send_telling_link(
        &self,
        command: Cmd,
    ) -> Result<(LinkId, Value), BackendError> {
        let link = self.connection.link();
        let reply = self.connection.send_over(&link, command).await.map_err(classify)?;
        Ok((link.id, reply))
    }

    /// The link over which requests go now.
    #[cfg(feature = "quorum")]
    pub(crate) fn link(&self) -> LinkId {
        self.connection.link().id
    }

    /// The keys that match `glob`, some of them more than once. A key that is no text is not ours.
    pub(crate) async fn keys(&self, glob: &str) -> Result<Vec<String>, BackendError> {
        let (mut cursor, mut found) = (0u64, Vec::new());
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_STEP);
            let page = self.send(scan).await?;
            let (next, keys): (u64, Vec<Vec<u8>>) = read(page, "a page of keys")?;
            found.extend(keys.into_iter().filter_map(|key| String::from_utf8(key).ok()));
            if next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
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
