//! The contenders: the project, its peers and the floors.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::client::{Client, Result, fresh_name};

/// Number of clients that connect at once. Starting a session costs the server work.
const AT_ONCE: usize = 4;

/// Name of the project among contenders. Its modes begin with the same word.
pub(crate) const OURS: &str = "leasehold";

type Connecting<'a> = BoxFuture<'a, Result<Box<dyn Client>>>;

/// A contender: the project, a peer or a floor.
#[derive(Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    connect: fn(&str) -> Connecting<'_>,
}

impl Contender {
    pub(crate) const fn of<C: Client + 'static>(name: &'static str) -> Self {
        Self { name, connect: connect::<C> }
    }

    /// Returns true if it is the project, in one of its modes.
    pub(crate) fn is_ours(self) -> bool {
        self.name.starts_with(OURS)
    }

    /// Returns a client that has completed one cycle, so that it is connected and has prepared its statements.
    pub(crate) async fn client(self, url: &str) -> Result<Box<dyn Client>> {
        let (mut client, name) = ((self.connect)(url).await?, fresh_name("first"));
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

fn connect<C: Client + 'static>(url: &str) -> Connecting<'_> {
    Box::pin(async move { Ok(Box::new(C::connect(url).await?) as Box<dyn Client>) })
}
