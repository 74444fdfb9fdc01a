//! How clients are let in: by password, as an ACL user, with a database, a Unix socket, TLS; and how
//! they are kept out.

use std::time::Duration;

use leasehold::redis::RedisOptions;
use leasehold::{LockClient, LockError, LostReason};
use lock_testkit::RedisServer;
use tokio::time::timeout;

use crate::support::{LIMIT, SECRET, client, fresh_name, patient, refusal, shown, works};

/// What an ACL user needs.
pub(crate) const RIGHTS: [&str; 25] = [
    "~*",
    "&leasehold-*",
    "+ping",
    "+evalsha",
    "+eval",
    "+publish",
    "+subscribe",
    "+time",
    "+get",
    "+set",
    "+del",
    "+exists",
    "+pexpire",
    "+pttl",
    "+zrange",
    "+zrank",
    "+zadd",
    "+zcard",
    "+zrem",
    "+hget",
    "+hset",
    "+hdel",
    "+hlen",
    "+hvals",
    "+scan",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_password() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).await;
    let address = server.addr();
    works(&client(&format!("redis://:{SECRET}@{address}")).await).await;
    for wrong in [format!("redis://{address}"), format!("redis://:not-{SECRET}@{address}")] {
        let text = refusal(&wrong).await;
        assert!(text.contains("password"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_acl_user_with_the_rights_that_the_docs_name() {
    let server = RedisServer::start().await;
    let secret = format!(">{SECRET}");
    let user = |name: &'static str, rights: &[&str]| {
        let reply = server
            .cli(&[&["ACL", "SETUSER", name, "on", &secret, "resetchannels"], rights].concat());
        assert_eq!(reply.to_string(), "OK");
        format!("redis://{name}:{SECRET}@{}", server.addr())
    };
    let able = user("able", &RIGHTS);
    works(&client(&able).await).await;

    let mute: Vec<&str> = RIGHTS.iter().copied().filter(|right| *right != "+evalsha").collect();
    let unable = user("unable", &mute);
    let refused = client(&unable).await.acquire(patient(&fresh_name())).await;
    let text = format!("{:?}", refused.expect_err("it lacks a right"));
    assert!(text.contains("EVALSHA") && !text.contains(SECRET), "{text}");

    let deaf: Vec<&str> = RIGHTS.iter().copied().filter(|right| *right != "&leasehold-*").collect();
    let deaf = client(&user("deaf", &deaf)).await;
    let name = fresh_name();
    let guard = client(&able).await.acquire(patient(&name)).await.expect("a free lock");
    let refused = deaf.acquire(patient(&name)).await.expect_err("it cannot be woken");
    assert!(format!("{refused:?}").contains("SUBSCRIBE"), "{refused:?}");
    guard.release().await.expect("an answer");
}

/// C8: a right that is taken away says nothing of the lock: the holder believes until its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_right_that_is_taken_away_is_no_eviction() {
    let server = RedisServer::start().await;
    let secret = format!(">{SECRET}");
    server
        .cli(&[&["ACL", "SETUSER", "able", "on", &secret, "resetchannels"], &RIGHTS[..]].concat());
    let client = client(&format!("redis://able:{SECRET}@{}", server.addr())).await;
    let ttl = Duration::from_secs(2);
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.cli(&["ACL", "SETUSER", "able", "-get"]);
    assert_eq!(timeout(LIMIT, guard.lost()).await.expect("its deadline"), LostReason::Expired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_database_number() {
    let server = RedisServer::start().await;
    let (one, two, name) =
        (format!("{}1", server.url()), format!("{}2", server.url()), fresh_name());
    let (one, two) = (client(&one).await, client(&two).await);
    let guard = one.acquire(patient(&name)).await.expect("a free lock");
    assert!(two.try_acquire(&*name).await.expect("an answer").is_some(), "databases are apart");
    assert!(guard.is_held());
    works(&one).await;
    refusal(&format!("{}99", server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_unix_socket() {
    let server = RedisServer::start_unix().await;
    assert!(server.url().starts_with("redis+unix:"), "{}", server.url());
    works(&leasehold::connect(&server.url()).await.expect("a connection")).await;
}

#[cfg(feature = "redis-rustls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_tls() {
    let server = lock_testkit::TlsRedis::start().await;
    let authority = std::fs::read(server.ca_path()).expect("the certificate of the authority");
    let options = RedisOptions::new(server.url()).root_certificate(authority);
    works(&LockClient::new(options.connect().await.expect("a connection"))).await;
    // A server whose certificate no authority signed, and a server without TLS.
    refusal(&server.url()).await;
    let plain = RedisServer::start().await;
    refusal(&plain.url().replace("redis:", "rediss:")).await;
    refusal(&server.url().replace("rediss:", "redis:")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_keeps_name_spaces_apart() {
    let server = RedisServer::start().await;
    let with = async |prefix: &str| {
        let options = RedisOptions::new(server.url()).prefix(prefix);
        LockClient::new(options.connect().await.expect("a connection"))
    };
    let (one, two) = (with("one:").await, with("two:").await);
    let guard = one.acquire("a").await.expect("a free lock");
    let other = two.acquire("a").await.expect("another lock");
    assert_eq!(server.cli(&["EXISTS", "one:a", "two:a"]).integer(), 2);
    assert_eq!(one.list("", 10).await.expect("an answer").len(), 1);
    assert!(guard.is_held() && other.is_held());
    let refused = RedisOptions::new(server.url()).prefix("{x}").connect().await;
    assert!(matches!(refused, Err(LockError::Config { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there() {
    let text = refusal(&format!("redis://:{SECRET}@127.0.0.1:1")).await;
    assert!(text.contains("cannot be reached"), "{text}");
    for bad in ["redis://", "redis://host:port/", &format!("redis://:{SECRET}@:0/x")] {
        refusal(bad).await;
    }
}

/// C32, R3: a server that does not know our command repeats its arguments in the error, and we do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_an_unknown_command_shows_no_owner() {
    let server = RedisServer::start_with(&["--rename-command", "EVALSHA", ""]).await;
    let refused = client(&server.url()).await.acquire(patient(&fresh_name())).await;
    let text = shown(&refused.expect_err("it cannot run scripts"));
    assert!(text.contains("EVALSHA"), "{text}");
    let longest = text.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    let name_digits = 32;
    assert!(longest <= Some(name_digits) && !text.contains("args"), "{text}");
}

/// A key of another type hides no lock from a listing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_survives_keys_of_another_type() {
    let server = RedisServer::start().await;
    let client = client(&server.url()).await;
    let tag = fresh_name();
    for part in ["a", "b", "c"] {
        let name = format!("{tag}{part}");
        let guard = client.acquire(patient(&name)).await.expect("a free lock");
        if part == "b" {
            server.cli(&["DEL", &name]);
            server.cli(&["LPUSH", &name, "x"]);
        } else {
            guard.detach().expect("held");
        }
    }
    let listed = client.list(&tag, 10).await.expect("a listing");
    assert_eq!(listed.len(), 3);
    assert_eq!(
        listed
            .iter()
            .filter(|state| state.holder.as_ref().is_some_and(|h| h.token.is_some()))
            .count(),
        2
    );
}
