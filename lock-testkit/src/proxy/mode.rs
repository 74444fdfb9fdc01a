//! Treatment of a connection by a proxy.

use std::time::Duration;

/// Treatment of the bytes that go through a [`Proxy`](crate::Proxy).
///
/// TCP never loses bytes from the middle of a stream: it delivers them late, or the connection ends. The proxy does
/// the same: a connection with swallowed bytes is cut when it would pass again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Requests pass, replies are lost: the client never learns what the server did.
    SwallowReplies,
    /// Requests are lost. Replies in flight pass.
    SwallowRequests,
    /// Nothing passes in either direction, not even an end; connections stay open. If the connection passes again, as
    /// after a partition, bytes of the meantime arrive late, even if the sender has closed it since.
    BlackHole,
    /// New connections are reset. Existing ones pass; see [`Proxy::cut`](crate::Proxy::cut).
    Refuse,
    /// Everything passes, this much later, each way.
    Delay(Duration),
    /// New connections take this long to be made. Existing ones pass.
    SlowToOpen(Duration),
    /// After this many more bytes of requests on it, a connection is cut; 0 cuts at once. The server
    /// receives those bytes; a reply to the last of them is lost.
    CutAfter(u64),
}
