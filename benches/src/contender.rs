//! The contenders: the project, its peers and the floors.

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::client::{Client, Connecting, Result, fresh_name};

/// Number of clients that connect at once. Starting a session costs the server work.
const AT_ONCE: usize = 4;

/// Name of the project among contenders. Its modes begin with the same word.
pub(crate) const OURS: &str = "leasehold";

/// A contender: the project, a peer or a floor.
#[derive(Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// Connects its own client to the store at a URL.
    pub(crate) connect: fn(String) -> Connecting,
}

impl Contender {
    /// Returns true if it is the project, in one of its modes.
    pub(crate) fn is_ours(self) -> bool {
        self.name.starts_with(OURS)
    }

    /// Returns a client that has completed one cycle, so that it is connected and has prepared its statements.
    pub(crate) async fn client(self, url: &str) -> Result<Box<dyn Client>> {
        let (mut client, name) = ((self.connect)(url.to_owned()).await?, fresh_name("first"));
        client.acquire(&name).await?;
        client.release(&name).await?;
        Ok(client)
    }

    /// Returns `count` clients with separate connections, as if on separate hosts.
    pub(crate) async fn clients(self, url: &str, count: usize) -> Result<Vec<Box<dyn Client>>> {
        let connecting = (0..count).map(|_| self.client(url));
        stream::iter(connecting).buffer_unordered(AT_ONCE).try_collect().await
    }
}
