//! Places of nodes on sessions.
//!
//! The end of a session is one transaction of all its paths. Servers that have written a transaction above twice
//! `jute.maxbuffer`, by default 1 MB, cannot read it, and serve no more. So a session has a bounded number of bytes of
//! paths, and further nodes go on another one.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::OnceCell;

use crate::session::Session;

/// Most bytes of the paths of nodes on one session: a quarter of the longest transaction that servers read.
const MOST_BYTES: usize = 512 * 1024;

/// A session that is open or opens, and the bytes of the paths of its nodes.
#[derive(Default)]
pub(crate) struct Opening {
    pub(crate) session: OnceCell<Arc<Session>>,
    bytes: AtomicUsize,
}

/// Bytes of a session for the path of a node, until the drop.
pub(crate) struct Room {
    pub(crate) opening: Arc<Opening>,
    bytes: usize,
}

/// The place of a node on a session.
pub(crate) struct Place {
    session: Arc<Session>,
    _room: Room,
}

impl Opening {
    /// Sets room aside for a path of this length; `None` if there is too little.
    pub(crate) fn room(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        // A path that is longer than the limit is alone on its session.
        let with = |used| (used == 0 || used + bytes <= MOST_BYTES).then_some(used + bytes);
        let set = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, with);
        set.ok().map(|_| Room { opening: self.clone(), bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.opening.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Place {
    pub(crate) fn new(session: Arc<Session>, room: Room) -> Arc<Self> {
        Arc::new(Self { session, _room: room })
    }

    /// Returns a number that only places on the same session share.
    pub(crate) fn session_number(&self) -> usize {
        Arc::as_ptr(&self.session).addr()
    }
}

impl Deref for Place {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

#[cfg(test)]
impl Place {
    /// A place on the session of a server that accepts it and answers its first ping, and then nothing.
    pub(crate) async fn mute() -> Arc<Self> {
        use std::io::{Read as _, Write as _};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a bound port has an address");
        // Protocol 0, a time-out of a minute, session 7, a password of 16 bytes, not read-only.
        let accepted = [0_u32, 60_000, 0, 7, 16, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
        // The number of pings, the last transaction, no error.
        let alive = [u32::MAX - 1, 0, 0, 0].map(u32::to_be_bytes).concat();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            for answer in [[&accepted[..], &[0]].concat(), alive] {
                let mut length = [0; 4];
                connection.read_exact(&mut length).expect("a request");
                let mut request = vec![0; u32::from_be_bytes(length) as usize];
                connection.read_exact(&mut request).expect("a request");
                let length = u32::try_from(answer.len()).expect("a short answer").to_be_bytes();
                connection.write_all(&[&length[..], &answer].concat()).expect("a client");
            }
            let _ = connection.read_to_end(&mut Vec::new());
        });
        let client =
            zookeeper_client::Client::connect(&address.to_string()).await.expect("a session");
        let session = Arc::new(Session::new(client, address.to_string()));
        Self::new(session, Arc::<Opening>::default().room(0).expect("no bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c28_a_session_has_room_for_a_quarter_of_a_transaction() {
        let opening = Arc::<Opening>::default();
        let half = opening.room(MOST_BYTES / 2).expect("it is empty");
        let rest = opening.room(MOST_BYTES / 2).expect("as much is left");
        assert!(opening.room(1).is_none() && opening.room(0).is_some());
        drop(half);
        assert!(opening.room(MOST_BYTES).is_none());
        drop(rest);
        assert!(opening.room(MOST_BYTES + 1).is_some(), "a long path has a session of its own");
    }
}
