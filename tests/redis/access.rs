//! Access of clients: by password, as an ACL user, with a database, a Unix socket, TLS; and refusals of it.

use std::time::Duration;

#[cfg(feature = "redis-rustls")]
use leasehold::Certificates;
use leasehold::admin::Health;
use leasehold::redis::RedisOptions;
use leasehold::{LockClient, LockError, LostReason};
use lock_testkit::RedisServer;
#[cfg(feature = "redis-rustls")]
use lock_testkit::TlsRedis;
use tokio::time::timeout;

use crate::support::{
    LIMIT, MINUTE, SECRET, Vault, client, expire_on_redis, finding, fresh_name,
    holds_outlive_expiries, patient, prefixes_keep_name_spaces_apart, refusal,
    refusals_are_told_apart, shown, works,
};

/// C8: a secret that expires costs nothing, whatever the protocol is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlive_secrets_that_expire() {
    let server = RedisServer::start().await;
    expire_on_redis(&server, "first");
    let connect = |vault| {
        let options = RedisOptions::new(server.url() + "?protocol=resp3").credentials(vault);
        async { Ok(LockClient::new(options.connect().await?)) }
    };
    refusals_are_told_apart(connect).await;
    let vault = Vault::of("first");
    let client = connect(vault.clone()).await.expect("a connection");
    let expire = async |secret: &str| expire_on_redis(&server, secret);
    holds_outlive_expiries(&client, &vault, expire).await;
}

/// Rights that an ACL user needs.
pub(crate) const RIGHTS: [&str; 31] = [
    "~*", "&leasehold-*", "+ping", "+evalsha", "+eval", "+publish", "+subscribe", "+time", "+get",
    "+getex", "+mget", "+set", "+setrange", "+incr", "+incrby", "+del", "+exists", "+pexpire",
    "+pttl", "+type", "+zrange", "+zrank", "+zadd", "+zcard", "+zpopmin", "+zrem", "+hget",
    "+hset", "+hdel", "+hvals", "+scan",
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
    shares(&client(&able).await).await;
    // Without a right a script may take a longer way: the list of rights must prevent that.
    assert!(server.cli(&["ACL", "LOG"]).array().is_empty(), "the list of rights lacks one");

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

/// An extra command of the driver would appear in the server's log for each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_refuses_nothing_of_what_is_sent() {
    let server = RedisServer::start().await;
    works(&client(&server.url()).await).await;
    let refused = server.cli(&["INFO", "errorstats"]);
    let others = refused.text().lines().filter(|line| line.starts_with("errorstat_"));
    // `NOSCRIPT` is no refusal: the client then sends the script.
    let others: Vec<_> = others.filter(|line| !line.starts_with("errorstat_NOSCRIPT:")).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// Acquires a lock twice at once, extends it, and releases it.
async fn shares(client: &LockClient) {
    let request = patient(&fresh_name()).permits(1, 3);
    let one = client.acquire(request.clone()).await.expect("a free lock");
    let other = client.acquire(request.permits(2, 3)).await.expect("it fits");
    one.extend(MINUTE * 2).await.expect("it is held");
    one.release().await.expect("held to the end");
    other.release().await.expect("held to the end");
}

/// C8: a right that is taken away is no eviction: the holder believes until its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_right_that_is_taken_away_is_no_eviction() {
    let server = RedisServer::start().await;
    let secret = format!(">{SECRET}");
    server
        .cli(&[&["ACL", "SETUSER", "able", "on", &secret, "resetchannels"], &RIGHTS[..]].concat());
    let client = client(&format!("redis://able:{SECRET}@{}", server.addr())).await;
    let ttl = Duration::from_secs(2);
    let guard = client.acquire(patient(&fresh_name()).ttl(ttl)).await.expect("a free lock");
    server.cli(&["ACL", "SETUSER", "able", "-mget"]);
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
    let server = TlsRedis::start().await;
    let authority = std::fs::read(server.certificates().ca_path()).expect("a certificate");
    let certificates = Certificates::new().authority(authority);
    let options = RedisOptions::new(server.url()).certificates(certificates);
    works(&LockClient::new(options.connect().await.expect("a connection"))).await;
    // A server with an unsigned certificate, and a server without TLS.
    refusal(&server.url()).await;
    let plain = RedisServer::start().await;
    refusal(&plain.url().replace("redis:", "rediss:")).await;
    refusal(&server.url().replace("rediss:", "redis:")).await;
}

#[cfg(feature = "redis-rustls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_certificate_is_named() {
    let server = TlsRedis::start_demanding(lock_testkit::Certificates::new()).await;
    crate::support::a_refused_certificate_is_named(&server.url(), server.certificates()).await;
    // C49: without TLS the files would have no effect.
    let plain = server.url().replace("rediss:", "redis:");
    assert!(refusal(&format!("{plain}?ca=a")).await.contains("parameter `ca`"));
}

#[cfg(feature = "redis-rustls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlast_a_new_certificate() {
    let mut server = TlsRedis::start_demanding(lock_testkit::Certificates::new()).await;
    let certificates = server.certificates().clone();
    let url = certificates.in_url(&server.url());
    let trusted = certificates.trusted().display().to_string();
    let reads = async || {
        server.server().cli(&["CONFIG", "SET", "tls-ca-cert-file", &trusted]);
    };
    crate::support::c08_holds_outlast_a_new_certificate(&url, &certificates, reads).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_a_prefix_by_url_keeps_name_spaces_apart() {
    let server = RedisServer::start().await;
    prefixes_keep_name_spaces_apart(&server.url()).await;
    let odd = client(&format!("{}?prefix=%7Bx%7D%23", server.url())).await;
    let _held = odd.acquire("a").await.expect("a free lock");
    assert_eq!(server.cli(&["EXISTS", "%7Bx%7D#a"]).integer(), 1);
}

/// C49: a user with rights for a prefix can do everything that a client behind that prefix does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_rights_on_the_keys_of_a_prefix_are_enough_for_it() {
    let server = RedisServer::start().await;
    let secret = format!(">{SECRET}");
    let rights = RIGHTS.iter().copied().filter(|right| *right != "~*");
    let rights: Vec<&str> = rights.chain(["~shop:*", "~{shop:*", "+info"]).collect();
    server.cli(&[&["ACL", "SETUSER", "shop", "on", &secret, "resetchannels"], &*rights].concat());
    let url = format!("redis://shop:{SECRET}@{}", server.addr());
    let shop = client(&format!("{url}?prefix=shop:")).await;
    works(&shop).await;
    let _held = shop.acquire("a").await.expect("a free lock");
    assert_eq!(shop.admin().list("", 10).await.expect("an answer").len(), 1);
    let health = async |client: &LockClient| finding(client, "rights").await.health;
    assert_eq!(health(&shop).await, Health::Good);
    assert_eq!(health(&client(&url).await).await, Health::Risk, "without the prefix it has none");
}

/// C49: parameters that the driver would ignore are refused, and those that it reads work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_parameters_that_have_no_effect_are_refused() {
    let server = RedisServer::start().await;
    let url = server.url();
    for good in ["?protocol=resp3", "?protocol=2&prefix=a:", "?"] {
        works(&client(&format!("{url}{good}")).await).await;
    }
    for (bad, named) in [
        ("?db=1", "`db`"),
        ("?user=u", "`user`"),
        ("?pass=secret", "`pass`"),
        ("?prefiks=secret", "`prefiks`"),
        ("?protocol=2&Protocol=secret", "`Protocol`"),
        ("#insecure", "`#`"),
        ("?protocol=secret", "URL cannot be used"),
        ("?prefix=%0a", "`prefix`"),
        ("?prefix=%ff", "`prefix`"),
    ] {
        let refused = leasehold::connect(&format!("{url}{bad}")).await;
        let Err(LockError::Config { message }) = refused else { panic!("{bad}: {refused:?}") };
        assert!(message.contains(named) && !message.contains("secret"), "{bad}: {message}");
    }
    let socket = RedisServer::start_unix().await;
    let (url, one) = (socket.url(), fresh_name());
    let first = client(&format!("{url}?db=1")).await;
    let _held = first.acquire(&*one).await.expect("a free lock");
    assert!(client(&url).await.try_acquire(&*one).await.expect("an answer").is_some());
    assert!(refusal(&format!("{url}?database=1")).await.contains("`database`"));
}

/// C15: a full server admits a client later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_what_a_server_says_at_the_opening_is_told() {
    let server = RedisServer::start().await;
    let url = server.url();
    let client = client(&url).await;
    server.cli(&["CONFIG", "SET", "maxclients", "1"]);
    let full = leasehold::connect(&url).await.expect_err("it is full");
    let LockError::Backend { source, .. } = &full else { panic!("{full:?}") };
    assert!(source.is_transient(), "{full}");
    works(&client).await;
    // A user whose rights end there.
    let locked = RedisServer::start().await;
    locked.cli(&["ACL", "SETUSER", "mute", "on", "nopass", "-@all"]);
    let text = refusal(&format!("redis://mute:any@{}", locked.addr())).await;
    assert!(text.contains("'ping'"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there() {
    let text = refusal(&format!("redis://:{SECRET}@127.0.0.1:1")).await;
    assert!(text.contains("cannot be reached"), "{text}");
    for bad in ["redis://", "redis://host:port/", &format!("redis://:{SECRET}@:0/x")] {
        refusal(bad).await;
    }
}

/// C32, R3: a server that does not know our command repeats its arguments in the error; our error does not.
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

/// A key of another type is no lock, and hides none from a listing.
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
            let _ = guard.detach().expect("held");
        }
    }
    let listed = client.admin().list(&tag, 10).await.expect("a listing");
    let names: Vec<&str> = listed.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["a", "c"].map(|part| format!("{tag}{part}")));
}
