//! Access of clients: user and password, several members, TLS; and refusals of it.

use std::time::{Duration, Instant};

#[cfg(feature = "etcd-tls")]
use leasehold::Certificates;
use leasehold::admin::{Health, Holder};
use leasehold::etcd::EtcdOptions;
#[cfg(feature = "etcd-tls")]
use leasehold::etcd::etcd_client::{Certificate, TlsOptions};
use leasehold::etcd::etcd_client::{Client, ConnectOptions};
use leasehold::{LockClient, LockError, LostReason, Wait};
use lock_testkit::{EtcdServer, Proxy};
use tokio::time::timeout;

use crate::servers::{EtcdFaults, claims, one_member};
use crate::support::{
    APP, SECRET, SLACK, Vault, client, client_through, finding, fresh_name, holds_outlive_expiries,
    patient, queued, refusal, refusals_are_told_apart, served, shown, works,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_user_and_password_with_rights_below_the_root() {
    let server = EtcdServer::start_with_password(SECRET).await;
    works(&client(&server.url()).await).await;
    let address = server.addr();
    let settings = ConnectOptions::new().with_user("root", SECRET);
    let options = EtcdOptions::like([address.to_string()], settings);
    works(&LockClient::new(options.connect().await.expect("a connection"))).await;
    for wrong in [format!("etcd://{address}/"), format!("etcd://root:not-{SECRET}@{address}/")] {
        let text = refusal(&wrong).await;
        assert!(text.contains("password"), "{text}");
    }
    server.ctl(&["user", "add", &format!("able:{SECRET}")]);
    server.ctl(&["user", "add", &format!("unable:{SECRET}")]);
    server.ctl(&["role", "add", "locks"]);
    server.ctl(&["role", "grant-permission", "locks", "--prefix=true", "readwrite", "leasehold/"]);
    server.ctl(&["user", "grant-role", "able", "locks"]);
    let able = client(&format!("etcd://able:{SECRET}@{address}/")).await;
    works(&able).await;
    let rights = async |client: &LockClient| finding(client, "rights").await.health;
    assert_eq!(rights(&able).await, Health::Good);
    // Rights on the keys of claims alone are not enough: a withdrawal leaves a mark, and tokens have a floor.
    server.ctl(&["user", "add", &format!("partly:{SECRET}")]);
    server.ctl(&["role", "add", "claims"]);
    let claims = ["role", "grant-permission", "claims", "--prefix=true", "readwrite"];
    server.ctl(&[&claims[..], &["leasehold/locks/"]].concat());
    server.ctl(&["user", "grant-role", "partly", "claims"]);
    let partly = client(&format!("etcd://partly:{SECRET}@{address}/")).await;
    assert_eq!(rights(&partly).await, Health::Risk);
    let text = refusal(&format!("etcd://unable:{SECRET}@{address}/")).await;
    assert!(text.contains("rights"), "{text}");
    // The error names a right that was taken away.
    server.ctl(&["role", "revoke-permission", "locks", "--prefix=true", "leasehold/"]);
    let refused = able.acquire(patient(&fresh_name())).await.expect_err("it lacks rights");
    assert!(shown(&refused).contains("rights"), "{refused:?}");
    assert_eq!(rights(&able).await, Health::Risk);
}

/// C8: a new password ends the logins that were made by the former one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlive_secrets_that_expire() {
    // The default cost makes each login slow.
    let server = EtcdServer::start_with(&["--bcrypt-cost", "4"]).await;
    server.ctl(&["user", "add", &format!("root:{SECRET}")]);
    server.ctl(&["user", "grant-role", "root", "root"]);
    server.ctl(&["role", "add", "locks"]);
    server.ctl(&["role", "grant-permission", "locks", "--prefix=true", "readwrite", "leasehold/"]);
    server.ctl(&["user", "add", &format!("{APP}:first")]);
    server.ctl(&["user", "grant-role", APP, "locks"]);
    server.ctl(&["auth", "enable"]);
    let as_root = ConnectOptions::new().with_user("root", SECRET);
    let operator = Client::connect([server.addr().to_string()], Some(as_root)).await;
    let operator = operator.expect("a connection");
    let connect = |vault| {
        let options = EtcdOptions::new(server.url()).credentials(vault);
        async { Ok(LockClient::new(options.connect().await?)) }
    };
    refusals_are_told_apart(connect).await;
    let vault = Vault::of("first");
    let client = connect(vault.clone()).await.expect("a connection");
    let expire = async |secret: &str| {
        let changed = operator.auth_client().user_change_password(APP, secret).await;
        changed.expect("root may");
    };
    holds_outlive_expiries(&client, &vault, expire).await;
}

/// A login that the server has forgotten, as after a restart, is renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_outlives_a_restart_of_the_server() {
    let mut server = EtcdServer::start_with_password(SECRET).await;
    let client = client(&server.url()).await;
    works(&client).await;
    server.restart().await;
    works(&client).await;
}

#[cfg(feature = "etcd-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_tls() {
    let server = EtcdServer::start_tls().await;
    let certificates = Certificates::new().authority(server.certificates().ca_path());
    let options = EtcdOptions::new(server.url()).certificates(certificates);
    works(&LockClient::new(options.connect().await.expect("a connection"))).await;
    let authority = std::fs::read(server.certificates().ca_path()).expect("a certificate");
    let settings = TlsOptions::new().ca_certificate(Certificate::from_pem(authority));
    let settings = ConnectOptions::new().with_tls(settings);
    let options = EtcdOptions::like([format!("https://localhost:{}", server.port())], settings);
    works(&LockClient::new(options.connect().await.expect("a connection"))).await;
    // A server with an untrusted certificate, and TLS to a server without TLS.
    refusal(&server.url()).await;
    refusal(&one_member().await.url().replace("etcd:", "etcds:")).await;
    refusal(&server.url().replace("etcds:", "etcd:")).await;
}

#[cfg(feature = "etcd-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_certificate_is_named() {
    let server = EtcdServer::start_demanding().await;
    crate::support::a_refused_certificate_is_named(&server.url(), &server.certificates()).await;
    // C49: without TLS the files would have no effect.
    assert!(refusal("etcd://localhost/?ca=a").await.contains("parameter `ca`"));
}

#[cfg(feature = "etcd-tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_holds_outlast_a_new_certificate() {
    let mut server = EtcdServer::start_demanding().await;
    let certificates = server.certificates();
    let url = certificates.in_url(&server.url());
    let reads = async || server.restart().await;
    crate::support::c08_holds_outlast_a_new_certificate(&url, &certificates, reads).await;
}

#[cfg(not(feature = "etcd-tls"))]
#[tokio::test]
async fn tls_that_is_not_compiled_in_names_its_feature() {
    assert!(refusal("etcds://localhost/").await.contains("`etcd-tls`"));
}

/// Addresses of dead members, and addresses without a member, are skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_several_members_with_one_dead() {
    let server = one_member().await;
    let (port, secret) = (server.port(), SECRET);
    for members in [format!("127.0.0.1:1,127.0.0.1:{port}"), format!("127.0.0.1:{port},[::1]:1")] {
        works(&client(&format!("etcd://{members}/")).await).await;
        works(&client(&format!("etcd://{members}/other/root")).await).await;
    }
    let options = EtcdOptions::new("etcd://127.0.0.1:1/").endpoint(server.addr().to_string());
    let client = LockClient::new(options.connect().await.expect("a connection"));
    works(&client).await;
    let reach = finding(&client, "reach").await;
    assert_eq!(reach.health, Health::Risk, "{reach}");
    let text = refusal(&format!("etcd://root:{secret}@127.0.0.1:1,127.0.0.1:2/")).await;
    assert!(text.contains("cannot be reached"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_a_part_of_a_url_that_is_not_known_is_named() {
    let url = one_member().await.url();
    for (bad, named) in
        [("?root=secret", "`root`"), ("?prefix=a:&db=secret", "`db`"), ("#x", "`#`")]
    {
        let text = refusal(&format!("{url}{bad}")).await;
        assert!(text.contains(named) && !text.contains("secret"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_keeps_name_spaces_apart() {
    let server = one_member().await;
    let name = fresh_name();
    let with = async |root: &str| {
        let options = EtcdOptions::new(server.url()).root(format!("{root}-{name}"));
        LockClient::new(options.connect().await.expect("a connection"))
    };
    let (one, two) = (with("one").await, with("two").await);
    let guard = one.acquire("a/b").await.expect("a free lock");
    let other = two.acquire("a/b").await.expect("another lock");
    assert_eq!(one.admin().list("", 10).await.expect("an answer").len(), 1);
    assert!(one.try_acquire("a").await.expect("an answer").is_some(), "a is not a/b");
    let key = format!("one-{name}/locks/a%2Fb/");
    assert_eq!(server.ctl(&["get", "--prefix", &key, "--keys-only"]).trim().lines().count(), 1);
    assert!(guard.is_held() && other.is_held());
    guard.release().await.expect("an answer");
    other.release().await.expect("an answer");
    let refused = EtcdOptions::new(server.url()).root("a/locks").connect().await;
    assert!(matches!(refused, Err(LockError::Config { .. })));
}

/// A foreign key among the claims on a lock holds it, until it is evicted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_among_the_claims_is_a_foreign_holder() {
    let server = one_member().await;
    let (observer, waiter) = (client(&server.url()).await, client(&server.url()).await);
    let name = fresh_name();
    server.ctl(&["put", &format!("leasehold/locks/{name}/by/hand"), "x"]);
    let busy = observer.acquire(patient(&name).wait(Wait::Never)).await.expect_err("it is held");
    // C49: it has no lease, and so no TTL.
    assert!(busy.to_string().contains("a key without a TTL that is not ours"), "{busy}");
    let waiting = queued(&waiter, &observer, patient(&name), &name).await;
    let seen = observer.admin().inspect(&name).await.expect("an answer");
    assert_eq!(seen.holder().cloned(), Some(Holder::foreign(None)));
    assert_eq!(observer.admin().list(&name, 10).await.expect("a listing"), [seen]);
    let evicted = observer.admin().evict(&name).await.expect("an answer");
    assert_eq!(evicted, [Holder::foreign(None)]);
    served(waiting).await.release().await.expect("an answer");
}

/// S3: every kind of claim waits for a claim of a later format, or a damaged one, whatever its start is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_a_claim_that_is_not_understood_is_waited_for() {
    let server = one_member().await;
    let client = client(&server.url()).await;
    let mut raw = Client::connect([server.addr().to_string()], None).await.expect("connects");
    let owner = "0123456789abcdef0123456789abcdef";
    for (start, text) in [
        (&b""[..], format!("a host\n\n{owner}\nand more")),
        (b"\xfe1/5:0\n", format!("a host\n\n{owner}\nand more")),
        (b"\xfe2/5:0\n", format!("a host\n\n{owner}")),
        (b"\xfe1/5:0\n", "a host".to_owned()),
        (b"\xf8", format!("a host\n\n{owner}")),
    ] {
        let name = fresh_name();
        let (key, value) =
            (format!("leasehold/locks/{name}/s-1"), [start, text.as_bytes()].concat());
        raw.put(key.clone(), value.clone(), None).await.expect("put");
        for request in [
            patient(&name),
            patient(&name).shared(),
            patient(&name).permits(1, 5),
            patient(&name).permits(1, 2),
        ] {
            let granted = client.try_acquire(request).await.expect("an answer");
            assert!(granted.is_none(), "{value:?}: {granted:?}");
        }
        let seen = client.admin().inspect(&name).await.expect("an answer");
        assert_eq!(seen.holder().cloned(), Some(Holder::foreign(None)), "{value:?}");
        let left = raw.get(key, None).await.expect("an answer");
        assert_eq!(left.kvs().first().map(|pair| pair.value()), Some(&*value));
        client.admin().evict(&name).await.expect("an answer");
    }
}

/// C42: a record that is not understood does not mean that the run did not happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c42_a_record_that_is_not_understood_is_named() {
    let server = one_member().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    let key = format!("leasehold/runs/{name}/monday");
    server.ctl(&["put", &key, "later:7"]);
    let once = client.once(&*name).occurrence("monday").run(async |_| ()).await;
    let error = once.expect_err("it is not known whether it ran").to_string();
    assert!(error.contains(&key) && error.contains("delete the key"), "{error}");
}

/// A quiet connection is left open: a server closes one that sends it pings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_kept() {
    let server = one_member().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = client_through::<EtcdFaults>(&proxy).await;
    let (opened, end) = (proxy.open_connections(), Instant::now() + Duration::from_secs(45));
    while Instant::now() < end {
        assert_eq!(proxy.open_connections(), opened, "the server has closed it");
        tokio::time::sleep(SLACK).await;
    }
    drop(client);
}

/// A foreign key beside the claims is no lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_keys_beside_the_claims_are_no_locks() {
    let server = one_member().await;
    let (client, name) = (client(&server.url()).await, fresh_name());
    server.ctl(&["put", &format!("leasehold/locks/{name}"), "x"]);
    server.ctl(&["put", &format!("leasehold/locks/{name}%FF/y"), "x"]);
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    let listed = client.admin().list(&name, 10).await.expect("a listing");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(claims(server, &name).len(), 1);
    guard.release().await.expect("an answer");
    let listed = client.admin().list(&name, 10).await.expect("a listing");
    assert_eq!(listed, []);
}

/// C8: losses are signalled at once for as long as a client lives, although each login of its stream of watches
/// expires after a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_watches_outlive_the_login_they_were_opened_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, SECRET).expect("the folder can be written");
    let tokens = format!("jwt,sign-method=HS256,priv-key={},ttl=2s", secret.display());
    let server = EtcdServer::start_with(&["--auth-token", &tokens]).await;
    server.ctl(&["user", "add", &format!("root:{SECRET}")]);
    server.ctl(&["user", "grant-role", "root", "root"]);
    server.ctl(&["auth", "enable"]);
    let url = format!("etcd://root:{SECRET}@{}/", server.addr());
    let (holder, evictor) = (client(&url).await, client(&url).await);
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        let (guard, name) = (holder.acquire(patient("a")).await.expect("free"), "a");
        // Holds of this age are watched.
        tokio::time::sleep(SLACK).await;
        evictor.admin().evict(name).await.expect("an answer");
        let reason = timeout(Duration::from_secs(5), guard.lost()).await.expect("the loss is told");
        assert_eq!(reason, LostReason::Evicted);
    }
}
