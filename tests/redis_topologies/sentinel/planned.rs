//! A healthy primary that is replaced, and stays a primary for its clients: for some seconds after each planned
//! failover, and longer if it is cut off from the sentinels.

use std::time::Duration;

use leasehold::LockClient;
use leasehold::admin::{Finding, Health};
use lock_testkit::{RedisSentinels, RedisServer, eventually};

use crate::NEVER;
use crate::forgotten::replicated;
use crate::support::{LIMIT, MINUTE, SECRET, client, fresh_name, held, patient, released, works};

fn has(server: &RedisServer, name: &str) -> bool {
    server.cli(&["EXISTS", name]).integer() == 1
}

/// Replaces the first server, which stays a primary; returns the number of its successor.
async fn replaced(sentinels: &RedisSentinels) -> usize {
    sentinels.keep_a_primary(0);
    sentinels.fail_over().await;
    let successor = sentinels.until_replaced(0).await;
    let role = sentinels.servers()[0].cli(&["ROLE"]);
    assert_eq!(role.array()[0].text(), "master", "the harness is blind");
    successor
}

/// Waits until `client` acquires its locks on `server`.
async fn until_it_asks(client: &LockClient, server: &RedisServer) {
    eventually("it asks the new primary", LIMIT, async || {
        let name = fresh_name();
        // The client may be between the two servers.
        let Ok(guard) = client.acquire(patient(&name)).await else { return false };
        let is_there = has(server, &name);
        let _ = guard.release().await;
        is_there
    })
    .await;
}

/// Asserts that no lock has two holders, and that a hold that moved with the data goes on.
async fn asks_the_successor(client: &LockClient, sentinels: &RedisSentinels, successor: usize) {
    let (former, successor) = (&sentinels.servers()[0], &sentinels.servers()[successor]);
    until_it_asks(client, successor).await;
    let name = fresh_name();
    let guard = held(client, &name).await;
    assert!(has(successor, &name) && !has(former, &name));
    let newcomer = crate::support::client(&sentinels.url()).await;
    let tried = newcomer.try_acquire(&*name).await.expect("an answer");
    assert!(tried.is_none(), "two holders");
    released(guard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_a_primary_that_was_replaced_grants_nothing() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let (client, name) = (client(&sentinels.url()).await, fresh_name());
    let kept = held(&client, &name).await;
    replicated(&sentinels.servers()[0], &name, 2);
    let successor = replaced(&sentinels).await;
    asks_the_successor(&client, &sentinels, successor).await;
    kept.extend(MINUTE * 2).await.expect("it is held there");
    let left = |number: usize| sentinels.servers()[number].cli(&["PTTL", &name]).integer();
    assert!(left(successor) > 60_000 && left(0) <= 60_000, "it is renewed there alone");
    released(kept).await;
}

/// A sentinel that is cut off from the others names the former primary, and is asked first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_one_stale_sentinel_misleads_nobody() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let stale = sentinels.start_stale(0).await;
    let scheme = "redis-sentinel://";
    let url = sentinels.url().replace(scheme, &format!("{scheme}{},", stale.addr()));
    let before = client(&url).await;
    let findings = doctor(&before).await;
    assert_eq!(health(&findings, "sentinels"), Health::Good, "{findings:?}");
    let successor = replaced(&sentinels).await;
    let after = client(&url).await;
    let name = fresh_name();
    let guard = held(&after, &name).await;
    assert!(has(&sentinels.servers()[successor], &name), "a new client was misled");
    released(guard).await;
    asks_the_successor(&before, &sentinels, successor).await;

    // C31: the doctor reports it, and also a primary that continues without its replicas.
    let findings = doctor(&after).await;
    let disagree = findings.iter().find(|finding| finding.check == "sentinels").expect("it looks");
    assert!(disagree.health == Health::Risk && disagree.seen.contains("disagree"), "{disagree}");
    assert!(disagree.seen.contains(&stale.addr().to_string()), "{disagree}");
    assert_eq!(health(&findings, "replicas"), Health::Risk, "{findings:?}");
    sentinels.servers()[successor].cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(health(&doctor(&after).await, "replicas"), Health::Good);
}

async fn doctor(client: &LockClient) -> Vec<Finding> {
    client.admin().doctor().await.expect("an answer")
}

fn health(findings: &[Finding], check: &str) -> Health {
    findings.iter().find(|finding| finding.check == check).expect("it looks").health
}

/// C31: the rights that a user of the sentinels needs, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_the_sentinels_needs_the_rights_that_the_docs_name() {
    let sentinels = RedisSentinels::start(NEVER).await;
    let secret = format!(">{SECRET}");
    let rights = ["+ping", "+sentinel|master", "+sentinel|get-master-addr-by-name"];
    for (user, rights) in [("able", &rights[..]), ("unable", &rights[..1])] {
        let command = [&["ACL", "SETUSER", user, "on", &secret, "-@all"], rights].concat();
        for reply in sentinels.ask_sentinels(&command) {
            assert_eq!(reply.to_string(), "OK");
        }
    }
    let url = |user| format!("{}?sentinel_user={user}&sentinel_pass={SECRET}", sentinels.url());
    works(&client(&url("able")).await).await;
    let refused = leasehold::connect(&url("unable")).await.expect_err("it lacks rights");
    let text = crate::support::shown(&refused);
    assert!(text.contains("+sentinel|master") && !text.contains(SECRET), "{text}");
}

/// Without a report that the primary was replaced, a healthy one continues, and one that may have lost its data
/// does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hiccup_while_the_sentinels_are_away_costs_no_hold() {
    let mut sentinels = RedisSentinels::start(NEVER).await;
    let (client, name) = (client(&sentinels.url()).await, fresh_name());
    let guard = held(&client, &name).await;
    sentinels.end_sentinels();
    sentinels.servers()[0].cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("it is opened again", LIMIT, async || guard.extend(MINUTE * 2).await.is_ok()).await;
    assert!(sentinels.servers()[0].cli(&["PTTL", &name]).integer() > 60_000);
    sentinels.servers()[0].stop();
    let leaves = client.acquire(patient(&fresh_name()));
    let left = tokio::time::timeout(Duration::from_millis(50), leaves).await;
    assert!(left.is_err(), "the server answers nothing: {left:?}");
    sentinels.servers()[0].cont();
    guard.extend(MINUTE).await.expect("it is held");
    sentinels.server(0).restart().await;
    for _ in 0..3 {
        let request = patient(&fresh_name()).wait(leasehold::Wait::AtMost(MINUTE / 60));
        client.acquire(request).await.expect_err("it has lost its data");
    }
}
