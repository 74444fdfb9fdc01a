//! Ways to connect, and refusals.

use std::error::Error;
use std::time::Instant;

use leasehold::LockClient;

use super::{REQUEST_TIMEOUT, SLACK, fresh_name, patient};

/// A password, which no output may show.
pub(crate) const SECRET: &str = "pa55word-of-the-test";

/// Asserts that the client can acquire, release and wait.
pub(crate) async fn works(client: &LockClient) {
    let name = fresh_name();
    let guard = client.acquire(patient(&name)).await.expect("a free lock");
    let waiting = client.acquire(patient(&name));
    let (released, next) = tokio::join!(guard.release(), waiting);
    released.expect("an answer");
    next.expect("its turn comes").release().await.expect("an answer");
}

/// C49: clients with different prefixes share a store, but no names. `url` has no parameters.
pub(crate) async fn prefixes_keep_name_spaces_apart(url: &str) {
    let tag = fresh_name();
    let behind = async |prefix: &str| {
        leasehold::connect(&format!("{url}?prefix={tag}{prefix}")).await.expect("a connection")
    };
    let (one, two, same) = (behind("/1:").await, behind("/2:").await, behind("%2F1%3A").await);
    let guard = one.acquire("a").await.expect("a free lock");
    let other = two.acquire("a").await.expect("another lock");
    assert!(same.try_acquire("a").await.expect("an answer").is_none(), "two holders");
    let plain = leasehold::connect(url).await.expect("a connection");
    assert!(plain.try_acquire(format!("{tag}/1:a")).await.expect("an answer").is_none());
    let listed = one.admin().list("", 10).await.expect("a listing");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name.as_str(), "a");
    assert_eq!(plain.admin().list(&tag, 10).await.expect("a listing").len(), 2);
    works(&one).await;
    guard.release().await.expect("it was held");
    other.release().await.expect("it was held");
}

/// Returns the reason why `url` is refused. The error must arrive soon. A server that is too busy to answer is
/// asked again.
pub(crate) async fn refusal(url: &str) -> String {
    let mut tries = 5;
    loop {
        let asked = Instant::now();
        let text = shown(&leasehold::connect(url).await.expect_err("we must be kept out"));
        let took = asked.elapsed();
        assert!(took < REQUEST_TIMEOUT * 3 + SLACK, "refused after {took:?}");
        tries -= 1;
        if tries == 0 || !text.contains("timed out") {
            return text;
        }
    }
}

/// Returns the texts of an error and its causes, and asserts that they contain no secret.
pub(crate) fn shown(error: &dyn Error) -> String {
    let mut text = format!("{error:?} {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause:?} {cause}");
        source = cause.source();
    }
    assert!(!text.contains(SECRET), "a secret is shown: {text}");
    text
}
