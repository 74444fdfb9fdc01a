//! Users.

use leasehold::core::Health;
use leasehold::zookeeper::ZooKeeperOptions;
use leasehold::{LockClient, connect};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::servers::one_member;
use crate::support::{APP, Vault, client, finding, fresh_name, refusal, shown, turn};

/// C32: only its user may read the nodes of a user. The refusal says so, and shows no password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_the_nodes_of_a_user_are_for_that_user_alone() {
    let (server, root) = (one_member().await, fresh_name());
    let url = |login: &str| format!("zookeeper://{login}{}/{root}", server.addr());
    turn(&client(&url("user:s%65cret@")).await, "a").await;
    turn(&client(&url("user:secret@")).await, "a").await;
    for stranger in ["", "user:wrong@", "other:secret@"] {
        let refused = connect(&url(stranger)).await.expect_err("another user").to_string();
        assert!(refused.contains("lacks rights"), "{refused}");
        assert!(!refused.contains("wrong") && !refused.contains("secret"), "{refused}");
    }
}

/// Each connection asks the provider. The nodes belong to name and password together, so another password has no rights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_connection_asks_for_its_login() {
    let (server, root) = (one_member().await, fresh_name());
    let url = |login: &str| format!("zookeeper://{login}{}/{root}", server.addr());
    let connect =
        |vault: &Vault| ZooKeeperOptions::new(url("")).credentials(vault.clone()).connect();
    let missing = connect(&Vault::default()).await.expect_err("there is none");
    assert!(missing.is_transient(), "{missing}");
    assert!(shown(&missing).contains("no credentials: the vault is empty"), "{missing}");
    let vault = Vault::of("first");
    let locks = LockClient::new(connect(&vault).await.expect("a connection"));
    let asked = vault.asked();
    turn(&locks, "a").await;
    assert!(vault.asked() > asked, "the session of a TTL has a connection of its own");
    turn(&client(&url(&format!("{APP}:first@"))).await, "a").await;
    vault.put(&["second"], async {}).await;
    let refused = connect(&vault).await.expect_err("another user").to_string();
    assert!(refused.contains("lacks rights") && !refused.contains("second"), "{refused}");
}

/// C31: the doctor tells a user if everybody may end locks, since the nodes were created without a user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_locks_that_everybody_may_end_are_told() {
    let server = one_member().await;
    let (open, closed) = (fresh_name(), fresh_name());
    let url = |login: &str, root: &str| format!("zookeeper://{login}{}/{root}", server.addr());
    let health = async |url: String| finding(&client(&url).await, "access").await.health;
    assert_eq!(health(url("", &open)).await, Health::Good);
    assert_eq!(health(url("user:secret@", &open)).await, Health::Risk);
    assert_eq!(health(url("user:secret@", &closed)).await, Health::Good);
}

/// C31: so are the rights that a stranger kept who made a node first. No part of a password is shown (C32).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c31_nodes_that_a_stranger_made_first_are_told() {
    let server = one_member().await;
    let open = [Acl::new(Permission::ALL, AuthId::anyone())];
    let kept = [Acl::new(Permission::ALL, AuthId::authed()), open[0].clone()];
    // A floor of the present would be replaced.
    for made_first in ["", "/locks", "/withdrawn", "/runs", "/floor/1900000000000000"] {
        let (connector, root) =
            (Client::connector().with_auth("digest", b"bob:word"), fresh_name());
        let stranger = connector.connect(&server.addr().to_string()).await.expect("a connection");
        let node = format!("/{root}{made_first}");
        let options = |acls| CreateMode::Persistent.with_acls(Acls::new(acls));
        let (parent, _) = node.rsplit_once('/').expect("it begins with a slash");
        if !parent.is_empty() {
            stranger.mkdir(parent, &options(&open)).await.expect("nodes");
        }
        stranger.create(&node, &[], &options(&kept)).await.expect("a node");
        let locks = client(&format!("zookeeper://user:secret@{}/{root}", server.addr())).await;
        turn(&locks, "a").await;
        let access = finding(&locks, "access").await;
        let names_it = access.seen.contains(&format!("digest:bob at {node}"));
        assert!(access.health == Health::Risk && names_it, "{node}: {access:?}");
        let shown = format!("{access:?}");
        assert_eq!(shown.matches("digest:bob").count(), shown.matches("bob").count(), "{shown}");
        assert!(!shown.contains("digest:bob:"), "{shown}");
    }
}

#[cfg(feature = "zookeeper-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_tls() {
    use leasehold::zookeeper::ZooKeeperOptions;

    let server = lock_testkit::ZooKeeperServer::start_tls().await;
    let authority = server.certificates().expect("it speaks TLS").ca_path();
    let certificates = leasehold::Certificates::new().authority(authority);
    let options = ZooKeeperOptions::new(server.url()).certificates(certificates);
    // On a busy machine the server's first handshake takes longer than a client waits.
    let connects = async || options.clone().connect().await.is_ok();
    lock_testkit::eventually("the first handshake", crate::support::LIMIT, connects).await;
    let locks = leasehold::LockClient::new(options.connect().await.expect("a connection"));
    crate::support::works(&locks).await;
    // No authority that the platform knows signed its certificate.
    assert!(refusal(&server.url()).await.contains("who signed it"));
}

/// C15: TLS at a port without, and the reverse.
#[cfg(feature = "zookeeper-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_port_of_the_other_kind_is_named() {
    let (plain, tls) = (one_member().await, lock_testkit::ZooKeeperServer::start_tls().await);
    let text = refusal(&plain.url().replace("zookeeper:", "zookeepers:")).await;
    assert!(text.contains("if it speaks none, say zookeeper, not zookeepers"), "{text}");
    let text = refusal(&tls.url().replace("zookeepers:", "zookeeper:")).await;
    assert!(text.contains("if it speaks TLS, say zookeepers, not zookeeper"), "{text}");
}

#[cfg(feature = "zookeeper-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_certificate_is_named() {
    let server = lock_testkit::ZooKeeperServer::start_demanding().await;
    let certificates = server.certificates().expect("it speaks TLS");
    crate::support::a_refused_certificate_is_named(&server.url(), certificates).await;
    // C49: without TLS the files would have no effect.
    assert!(refusal("zookeeper://localhost/?ca=a").await.contains("parameter `ca`"));
}

#[cfg(feature = "zookeeper-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlast_a_new_certificate() {
    let mut server = lock_testkit::ZooKeeperServer::start_demanding().await;
    let certificates = server.certificates().expect("it speaks TLS").clone();
    let url = certificates.in_url(&server.url());
    let reads = async || server.restart().await;
    crate::support::c08_holds_outlast_a_new_certificate(&url, &certificates, reads).await;
}

#[cfg(not(feature = "zookeeper-tls"))]
#[tokio::test]
async fn tls_that_is_not_compiled_in_names_its_feature() {
    assert!(refusal("zookeepers://localhost/").await.contains("`zookeeper-tls`"));
}
