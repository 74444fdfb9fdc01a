//! C33 to C38: holds beside each other, as a Redis server and its other clients see them.

use futures_util::future::join_all;
use leasehold::{LockClient, LockGuard, LockRequest};
use lock_testkit::{RedisServer, Reply, eventually};

use crate::support::{
    LIMIT, MINUTE, acquiring, client, fresh_name, held, patient, queued, released, served, turn,
};

type Asked = fn(LockRequest) -> LockRequest;

const BESIDE: [Asked; 2] = [LockRequest::shared, |request| request.permits(1, 2)];

async fn two(client: &LockClient, name: &str, asked: Asked) -> Vec<LockGuard> {
    let guards = join_all((0..2).map(|_| client.try_acquire(asked(patient(name))))).await;
    guards.into_iter().map(|guard| guard.expect("an answer").expect("it fits")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c37_every_kind_of_hold_keeps_a_foreign_client_out() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for asked in BESIDE {
        let name = fresh_name();
        for guard in two(&client, &name, asked).await {
            let refused = server.cli(&["SET", &name, "theirs", "NX", "PX", "5000"]);
            assert_eq!(refused, Reply::Nil, "the key stands while anybody holds");
            assert!(server.cli(&["PTTL", &name]).integer() > 0, "and ends with the last of them");
            released(guard).await;
        }
        assert_eq!(server.cli(&["SET", &name, "theirs", "NX", "PX", "5000"]).text(), "OK");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c37_a_foreign_client_keeps_every_kind_of_hold_out() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    // A mark without a hold is a foreign value too.
    for (asked, value) in BESIDE.into_iter().zip(["theirs", "*2"]) {
        let name = fresh_name();
        server.cli(&["SET", &name, value, "NX", "PX", "5000"]);
        let tried = client.try_acquire(asked(patient(&name))).await.expect("an answer");
        assert!(tried.is_none(), "two holders");
        assert_eq!(server.cli(&["GET", &name]).text(), value, "it is left alone");
        server.cli(&["DEL", &name]);
        join_all(two(&client, &name, asked).await.into_iter().map(released)).await;
    }
}

/// Returns the calls of each command since the server's statistics were reset.
pub(crate) fn commands(server: &RedisServer) -> Vec<(String, String)> {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), rest.split(',').next()?.to_owned()))
    };
    let ours = stats.text().lines().filter_map(line).filter(|(command, _)| {
        !matches!(
            command.as_str(),
            "config" | "config|resetstat" | "info" | "ping" | "client|setinfo"
        )
    });
    let mut ours: Vec<_> = ours.collect();
    ours.sort();
    ours
}

/// An exclusive hold costs the server no more than before there were other kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c33_an_exclusive_hold_pays_nothing_for_the_other_kinds() {
    let server = RedisServer::start().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    turn(&client, &name).await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    turn(&client, &name).await;
    let expected = [
        ("del", "1"),
        ("evalsha", "2"),
        ("exists", "1"),
        ("get", "2"),
        ("set", "2"),
        ("time", "1"),
        ("zpopmin", "1"),
    ];
    let seen = commands(&server);
    let seen: Vec<_> = seen.iter().map(|(command, calls)| (&**command, &**calls)).collect();
    assert_eq!(seen, expected);
}

/// C34: a claim behind a writer that gives up need not wait for its own next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c34_a_writer_that_gives_up_lets_readers_in() {
    let server = RedisServer::start().await;
    let (reads, writes, waits) =
        (client(&server.url()).await, client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    let first = reads.acquire(patient(&name).shared()).await.expect("a free lock");
    let writer = queued(&writes, &reads, patient(&name), &name).await;
    let reader = acquiring(&waits, patient(&name).shared());
    let state = async || reads.admin().inspect(&name).await.expect("an answer");
    eventually("both wait", LIMIT, async || state().await.waiters == Some(2)).await;
    writer.abort();
    writes.shutdown().await;
    assert_eq!(state().await.holders.len(), 2, "the second reader fits beside the first");
    let second = served(reader).await;
    released(first).await;
    released(second).await;
}

/// A server without memory grants nothing, and keeps and ends its holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c38_a_server_out_of_memory_keeps_and_ends_holds() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for asked in BESIDE {
        let name = fresh_name();
        let guards = two(&client, &name, asked).await;
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        client.try_acquire(asked(patient(&fresh_name()))).await.expect_err("out of memory");
        for guard in &guards {
            guard.extend(MINUTE * 2).await.expect("it is held");
        }
        join_all(guards.into_iter().map(released)).await;
        assert_eq!(server.cli(&["EXISTS", &name]).integer(), 0);
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}

/// R1: a hold has no companion of its own, and leaves only the counter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_holds_beside_each_other_leave_no_keys() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    for asked in BESIDE {
        let name = fresh_name();
        let guards = two(&client, &name, asked).await;
        assert_eq!(server.cli(&["KEYS", &format!("*{name}*")]).array().len(), 2);
        join_all(guards.into_iter().map(released)).await;
        assert_eq!(server.cli(&["KEYS", &format!("*{name}*")]).array().len(), 1);
        released(held(&client, &name).await).await;
    }
}
