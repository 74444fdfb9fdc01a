//! C26 to C28: waiters that are far from their turn wait in the server, and do not listen.

use std::sync::mpsc::channel;
use std::time::Duration;

use leasehold::{LockClient, LockGuard};
use lock_testkit::faults::Waiting;
use lock_testkit::{PostgresServer, eventually};

use crate::server::number;
use crate::support::{LIMIT, client, fresh_name, held, patient, released, served};

/// The first four have their turn soon and listen. Nobody waits for those, so the next four listen as well.
const LISTEN: usize = 8;
const FAR: usize = 3;

/// A lock with waiters from the first to the last, each with a client of its own.
struct Line {
    server: PostgresServer,
    guard: LockGuard,
    clients: Vec<LockClient>,
    waiting: Vec<Waiting>,
}

impl Line {
    async fn form() -> Self {
        let server = PostgresServer::start_with(&["max_connections=300"]).await;
        let (name, observer) = (fresh_name(), client(&server.url()).await);
        let guard = held(&observer, &name).await;
        let (mut clients, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..LISTEN + FAR {
            let client = client(&server.url()).await;
            waiting.push(queue(&client, &name).await);
            clients.push(client);
        }
        Self { server, guard, clients, waiting }
    }

    /// Waits until so many sessions wait in the server.
    async fn until_far(&self, sessions: usize) {
        let far = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        let what = format!("{sessions} sessions wait in the server");
        eventually(&what, LIMIT, async || number(&self.server, far) == sessions as u64).await;
    }
}

/// Counts the sessions that hold a lock for those behind them, beside the one that shows that the session lives.
const PLACES: &str = "SELECT count(*) FROM (SELECT pid FROM pg_locks WHERE locktype = 'advisory' \
     AND granted AND mode = 'ExclusiveLock' GROUP BY pid HAVING count(*) > 1) places";

/// Sooner than a session is closed in which nobody waits any more.
const SOON: Duration = Duration::from_secs(5);

/// Lets a client wait, and waits until it does.
async fn queue(client: &LockClient, name: &str) -> Waiting {
    let (told, heard) = channel();
    let request = patient(name).on_wait(move |_| {
        let _ = told.send(());
    });
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.acquire(request).await })
    };
    eventually("it is told to wait", LIMIT, async || heard.try_recv().is_ok()).await;
    waiting
}

/// C27: each one that is served lets the one behind it come near, and all are served in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_waiters_far_from_their_turn_come_near_one_by_one() {
    let mut line = Line::form().await;
    line.until_far(FAR).await;
    for (served_before, waiting) in std::mem::take(&mut line.waiting).into_iter().enumerate() {
        released(line.guard).await;
        line.guard = served(waiting).await;
        let places = LISTEN + FAR - (served_before + 1).max(LISTEN / 2);
        let what = format!("{places} sessions have a place that is waited for");
        eventually(&what, SOON, async || number(&line.server, PLACES) == places as u64).await;
    }
    released(line.guard).await;
}

/// C26: a client waits in the server for one lock alone. If it comes to wait for another, its session listens for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_session_that_waits_in_the_server_listens_once_its_client_waits_for_more() {
    let mut line = Line::form().await;
    line.until_far(FAR).await;
    let (last, other) = (line.clients.pop().expect("the last"), fresh_name());
    let guard = held(&line.clients[0], &other).await;
    let waiting = queue(&last, &other).await;
    line.until_far(FAR - 1).await;
    released(guard).await;
    released(served(waiting).await).await;
}
