//! Sessions that listen: their number, and servers that are slow to let a client listen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_testkit::faults::Harness;
use lock_testkit::{PostgresServer, Proxy, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{PostgresFaults, number, url_at};
use crate::support::{LIMIT, client, fresh_name, held, patient, queued, released, served};

/// Passes everything on, except each LISTEN and the rest of its connection. Returns the address, and the number of those
/// that it kept.
async fn without_listen(server: &PostgresServer) -> (String, Arc<AtomicUsize>) {
    let kept = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!(
        "postgres://postgres@{}/postgres?sslmode=disable",
        listener.local_addr().expect("an address")
    );
    let (server, count) = (server.addr(), kept.clone());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(
                client,
                TcpStream::connect(server).await.expect("a server"),
                count.clone(),
            ));
        }
    });
    (url, kept)
}

async fn pass_on(client: TcpStream, server: TcpStream, kept: Arc<AtomicUsize>) {
    let ((mut asks, mut hears), (mut answers, mut takes)) =
        (client.into_split(), server.into_split());
    tokio::spawn(async move { copy(&mut answers, &mut hears).await });
    let mut asked = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = asks.read(&mut asked).await {
        if asked[..length].windows(11).any(|text| text == b"v1_listen\"(") {
            kept.fetch_add(1, Ordering::Relaxed);
            while let Ok(1..) = asks.read(&mut asked).await {}
            return;
        }
        takes.write_all(&asked[..length]).await.expect("taken");
    }
}

/// R1: with a full queue of notifications a LISTEN takes longer than a client waits, and nothing ends it. The client does
/// not send another at once, and its waiters poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_listen_without_an_answer_is_not_sent_again_at_once() {
    let server = PostgresServer::start().await;
    let (url, kept) = without_listen(&server).await;
    let (holder, waiter) = (client(&server.url()).await, client(&url).await);
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    eventually("it wants to listen", LIMIT, async || kept.load(Ordering::Relaxed) == 1).await;
    // Twice the time after which a client gives one up.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(kept.load(Ordering::Relaxed), 1, "it listens again and again");
    released(guard).await;
    released(served(waiting).await).await;
}

/// C28: new connections of a waiter lead to a standby, where nothing can listen, and its requests still reach the primary.
/// The wait goes on, and the waiter listens again soon after its connections lead to the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_wait_survives_a_listening_session_that_meets_a_standby() {
    let server = PostgresServer::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (holder, waiter) = (client(&server.url()).await, client(&url_at(proxy.addr())).await);
    let (name, standby) = (fresh_name(), server.standby().await);
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    proxy.lead_to(standby.addr());
    server.psql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
    eventually("it is refused", LIMIT, async || {
        standby.log().contains("cannot execute LISTEN during recovery")
    })
    .await;
    proxy.lead_to(server.addr());
    eventually("it listens again", LIMIT, async || PostgresFaults::pushes(&server).await == 1)
        .await;
    released(guard).await;
    released(served(waiting).await).await;
}

/// R1: a server that has no connection left is asked for one at growing intervals, and not in quick succession.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_a_server_without_connections_is_left_alone_between_tries() {
    let server = PostgresServer::start().await;
    server.psql("CREATE ROLE app LOGIN");
    let (holder, name) = (client(&server.url()).await, fresh_name());
    crate::security::let_in(&server, "app");
    let waiter = client(&server.url_as("app", "postgres")).await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'";
    eventually("one session is left", LIMIT, async || number(&server, sessions) == 1).await;
    server.psql("ALTER ROLE app CONNECTION LIMIT 1");
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    let refusals = || {
        let log = server.log();
        let refused = log.lines().filter(|line| line.contains("too many connections for role"));
        refused.map(seconds).collect::<Vec<_>>()
    };
    eventually("it wants to listen", LIMIT, async || refusals().len() >= 5).await;
    let refusals = refusals();
    let quick = refusals.windows(2).filter(|pair| pair[1] - pair[0] < 0.1).count();
    assert!(quick <= 1, "{quick} tries follow another at once: {refusals:?}");
    server.psql("ALTER ROLE app CONNECTION LIMIT -1");
    released(guard).await;
    released(served(waiting).await).await;
}

/// Returns the seconds since midnight of a line of the server's log, which begins with the date and the time.
fn seconds(line: &str) -> f64 {
    let time = line.split_whitespace().nth(1).expect("a time");
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().expect("a number"))
}

/// R1: each wait of a client is one entry of the statistics at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_statistics_have_no_entry_of_one_client() {
    let statements = "shared_preload_libraries=pg_stat_statements";
    let server = PostgresServer::start_with(&[statements]).await;
    server.psql("CREATE EXTENSION pg_stat_statements");
    let holder = client(&server.url()).await;
    for _ in 0..2 {
        let (waiter, name) = (client(&server.url()).await, fresh_name());
        let guard = held(&holder, &name).await;
        let waiting = queued(&waiter, &holder, patient(&name), &name).await;
        released(guard).await;
        released(served(waiting).await).await;
    }
    let named = "SELECT query FROM pg_stat_statements WHERE query ~ 'leasehold_[0-9a-f]{6}'";
    assert_eq!(server.psql(named), "");
}

/// R1: the server notices within seconds that a client's machine is gone, and not after two hours.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_the_server_asks_each_session_for_a_sign_of_life() {
    let server = PostgresServer::start().await;
    let holder = client(&server.url()).await;
    let waiter = client(&server.url()).await;
    let name = fresh_name();
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    // A session for requests each, and one that listens.
    eventually("each session has a timer of seconds", LIMIT, async || {
        let timers = keep_alive_timers(server.port());
        timers.len() >= 3 && timers.iter().all(|timer| timer.is_some_and(|left| left <= 500))
    })
    .await;
    released(guard).await;
    released(served(waiting).await).await;
}

/// A client waits outside the server: no statement of an application waits for it, and the log has no line of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_waiter_delays_no_statement_of_the_application() {
    let settings = ["log_lock_waits=on", "deadlock_timeout=100ms"];
    let server = PostgresServer::start_with(&settings).await;
    let (holder, waiter, name) =
        (client(&server.url()).await, client(&server.url()).await, fresh_name());
    let guard = held(&holder, &name).await;
    let waiting = queued(&waiter, &holder, patient(&name), &name).await;
    server.psql("CREATE TABLE stock (item int)");
    server.psql("CREATE INDEX CONCURRENTLY ON stock (item)");
    released(guard).await;
    released(served(waiting).await).await;
    assert!(!server.log().contains("on advisory lock"), "{}", server.log());
}

/// Returns the time to the next sign of life of each connection at the server's side, in hundredths of a second.
fn keep_alive_timers(port: u16) -> Vec<Option<u32>> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the connections");
    let (ours, open) = (format!(":{port:04X}"), "01");
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines = table.lines().skip(1).map(fields);
    let lines = lines.filter(|fields| fields[1].ends_with(&ours) && fields[3] == open);
    let timer = |fields: Vec<String>| {
        let left = fields[5].strip_prefix("02:")?;
        u32::from_str_radix(left, 16).ok()
    };
    lines.map(timer).collect()
}
