//! Servers that demand a certificate of their clients.

use std::net::Ipv4Addr;

use leasehold::LockError;
use lock_testkit::{Certificates, Proxy, Signed, eventually};

use super::{LIMIT, MINUTE, client, fresh_name, held, refusal, released, works};

/// The reason why a server refuses a certificate is named, and a file that cannot be used by its path.
pub(crate) async fn a_refused_certificate_is_named(url: &str, certificates: &Certificates) {
    let [certificate, key] = certificates.sign_client(Signed::Well);
    let whole = certificates.in_url(url);
    works(&client(&whole).await).await;
    let names = async |url: &str, says: &str| {
        // A busy machine may be too slow for a handshake.
        eventually(says, LIMIT, async || refusal(url).await.contains(says)).await;
    };
    let without = whole.split('&').next().unwrap_or_default();
    names(without, "this client has none: give one by the parameters cert and key").await;
    names(url, "certificate").await;
    certificates.sign_client(Signed::Expired);
    names(&whole, "client.crt (`cert`) has expired, at ").await;
    certificates.sign_client(Signed::ByOther);
    names(&whole, "may not trust the authority that signed the certificate in the PEM file").await;
    std::fs::remove_file(&key).expect("it is there");
    names(&whole, &format!("the PEM file {} (`key`) cannot be read", key.display())).await;
    std::fs::copy(&certificate, &key).expect("it is written");
    names(&whole, "(`key`) has no whole private key in PEM").await;
    names(&format!("{url}?cert=a"), "a `cert` needs its `key`").await;
}

/// C08: holds of a client at `url`, with its certificates, outlast the replacement of the client's certificate, after which
/// the server accepts only the new certificate. `server_reads` lets the server read the authorities that it trusts.
pub(crate) async fn c08_holds_outlast_a_new_certificate(
    url: &str,
    certificates: &Certificates,
    server_reads: impl AsyncFnOnce(),
) {
    const HOLDS: usize = 100;
    let base = url.split('?').next().unwrap_or_default();
    let port = base.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port");
    let proxy = Proxy::start((Ipv4Addr::LOCALHOST, port.parse().expect("a number")).into()).await;
    let url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.addr().port()));
    let [_, key] = certificates.sign_client(Signed::Well);
    let former = std::fs::read(&key).expect("it is there");
    let client = client(&url).await;
    let mut guards = Vec::new();
    for _ in 0..HOLDS {
        guards.push(held(&client, &fresh_name()).await);
    }
    certificates.trust_only_other();
    server_reads().await;
    certificates.sign_client(Signed::ByOther);
    // The key is replaced after its certificate.
    let new = std::fs::read(&key).expect("it is there");
    std::fs::write(&key, former).expect("it is ours");
    proxy.cut();
    let failed = guards[0].extend(MINUTE).await;
    let Err(LockError::Backend { source, .. }) = failed else { panic!("{failed:?}") };
    assert!(source.is_transient(), "{source}");
    std::fs::write(&key, new).expect("it is ours");
    for guard in &guards {
        let extended = async || guard.extend(MINUTE).await.is_ok();
        eventually("it is extended over a new connection", LIMIT, extended).await;
    }
    works(&client).await;
    for guard in guards {
        released(guard).await;
    }
}
