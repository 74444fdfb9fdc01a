//! Requests with lost replies, and requests that are carried out after their sender gave up.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::{LockClient, LockError, LockRequest, OnceOutcome, Outcome, Wait};
use tokio::time::sleep;

use super::clients::{
    LIMIT, MINUTE, beside_a_network, client_at, client_through, fresh_name, held, released, turn,
    until_free,
};
use super::harness::Harness;
use super::server::Server;
use crate::{Mode, Proxy, eventually};

/// Requests are given up before this span is over, and arrive late after it.
const MOMENT: Duration = Duration::from_secs(1);

/// C15, C19, S8: a grant whose reply was lost is given back at once, though its TTL is a minute.
pub async fn c19_an_acquire_whose_reply_was_lost_is_taken_back<H: Harness>() {
    let (observer, client, proxy) = beside_a_network::<H>(H::shared().await).await;
    let acquire =
        async |name| client.acquire(LockRequest::new(name).ttl(MINUTE).wait(Wait::Never)).await;
    let prepare = async || {
        turn(&client, &fresh_name()).await;
    };
    let (name, failed) = unanswered(&proxy, &observer, prepare, acquire, || ()).await;
    let Err(LockError::Backend { source, .. }) = failed else {
        panic!("no reply came through: an error was expected, not {failed:?}");
    };
    assert_eq!(
        source.outcome(),
        Outcome::Unknown,
        "a lost reply leaves the outcome open: {source}"
    );
    assert!(source.is_transient(), "a lost reply is to be worth another try: {source}");
    proxy.set(Mode::Pass);
    proxy.cut();
    until_free(&observer, &name).await;
}

/// Makes a call whose request is applied, and whose reply is lost; returns its name and its answer. Calls `then` once
/// it is applied.
///
/// A client that has to connect sends no request, since the connection gets no reply either. Then another name is
/// tried.
async fn unanswered<T>(
    proxy: &Proxy,
    observer: &LockClient,
    prepare: impl AsyncFn(),
    call: impl AsyncFn(String) -> T,
    then: impl Fn(),
) -> (String, T) {
    for _ in 0..10 {
        prepare().await;
        let name = fresh_name();
        proxy.set(Mode::SwallowReplies);
        let is_held =
            async || observer.admin().inspect(&name).await.expect("an answer").holder().is_some();
        let applied = eventually("the request is applied", LIMIT, is_held);
        let mut answer = pin!(call(name.clone()));
        tokio::select! {
            () = applied => {
                then();
                return (name, answer.await);
            }
            _ = &mut answer => {}
        }
        proxy.set(Mode::Pass);
        proxy.cut();
    }
    panic!("none of ten requests was applied");
}

/// C19: a stopped server has the request before it sees that the sender gave up. When it continues, the claim is
/// withdrawn, and its request must not acquire the lock (S6).
pub async fn c19_a_ghost_of_a_stopped_server_takes_nothing<H: Harness>() {
    let server = H::start().await;
    let (client, observer) =
        (client_at::<H>(server.addr()).await, client_at::<H>(server.addr()).await);
    prepare(&client).await;
    let tag = fresh_name();
    server.stop();
    let failed = give_up_on_twenty(&client, &tag, MOMENT).await;
    assert_eq!(failed, 20, "a stopped server is to grant nothing");
    server.cont();
    client.shutdown().await;
    stay_free(&observer, &tag, MOMENT * 4).await;
}

/// C19: requests that a network held back arrive after their claims were withdrawn over another connection: the
/// server refuses them.
pub async fn c19_a_request_that_comes_after_its_withdrawal_takes_nothing<H: Harness>() {
    let (observer, client, proxy) = beside_a_network::<H>(H::shared().await).await;
    prepare(&client).await;
    let tag = fresh_name();
    proxy.set_existing(Mode::BlackHole);
    give_up_on_twenty(&client, &tag, MOMENT * 2).await;
    client.shutdown().await;
    proxy.set_existing(Mode::Pass);
    stay_free(&observer, &tag, MOMENT * 4).await;
}

/// Opens all connections of the client, and gets it ready. So the requests that are lost later are those that acquire
/// locks.
async fn prepare(client: &LockClient) {
    join_all((0..20).map(async |_| turn(client, &fresh_name()).await)).await;
}

/// Tries to acquire twenty locks at once whose names start with `tag`; returns the number of failures.
async fn give_up_on_twenty(client: &LockClient, tag: &str, wait: Duration) -> usize {
    let request = |i| LockRequest::new(format!("{tag}-{i}")).ttl(MINUTE).wait(Wait::AtMost(wait));
    let tried = join_all((0..20).map(|i| client.acquire(request(i)))).await;
    tried.iter().filter(|result| result.is_err()).count()
}

/// Asserts that no lock whose name starts with `tag` is held now or within `time`.
async fn stay_free(observer: &LockClient, tag: &str, time: Duration) {
    let (end, mut is_seen) = (Instant::now() + time, false);
    while !is_seen || Instant::now() < end {
        match observer.admin().list(tag, 20).await {
            Ok(ghosts) => {
                assert_eq!(ghosts, [], "the server is to refuse late requests of withdrawn claims");
                is_seen = true;
            }
            Err(error) => assert!(error.is_transient(), "an answer: {error}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// C16: a release whose reply was lost on the wire is a release.
pub async fn c16_a_release_whose_reply_was_lost_on_the_wire_is_released<H: Harness>() {
    let proxy = H::proxy(H::shared().await).await;
    let client = client_through::<H>(&proxy).await;
    let guard = held(&client, &fresh_name()).await;
    proxy.set_existing(Mode::SwallowReplies);
    released(guard).await;
}

/// C41, C19: a run whose grant was lost, and whose client is then cut off, keeps others out for its TTL, and not for
/// the minute of its `at_least`.
pub async fn c41_a_run_of_which_nobody_learned_keeps_others_out_for_its_ttl<H: Harness>() {
    let (observer, client, proxy) = beside_a_network::<H>(H::shared().await).await;
    if !records_runs(&observer).await {
        return;
    }
    let begin =
        async |name| client.once(name).ttl(Duration::from_secs(5)).at_least(MINUTE).begin().await;
    // The client is then ready for a run with this TTL.
    let prepare = async || {
        let once = client.once(fresh_name()).ttl(Duration::from_secs(5));
        released(once.begin().await.expect("an answer").ran().expect("a free lock")).await;
    };
    let cut_off = || proxy.set(Mode::BlackHole);
    let (name, begun) = unanswered(&proxy, &observer, prepare, begin, cut_off).await;
    assert!(begun.is_err(), "a run is not to begin without an answer: {begun:?}");
    until_free(&observer, &name).await;
}

/// C42: a record with lost requests or replies, for longer than a request time-out, is made once the server answers
/// again, since the lock is still held.
pub async fn c42_a_record_is_made_when_the_server_answers_again<H: Harness>() {
    let server = H::shared().await;
    for mode in [Mode::SwallowReplies, Mode::SwallowRequests] {
        let (observer, client, proxy) = beside_a_network::<H>(server).await;
        if !records_runs(&observer).await {
            return;
        }
        let name = fresh_name();
        let once = |client: &LockClient| client.once(&name).ttl(MINUTE).occurrence("x");
        let guard = once(&client).begin().await.expect("an answer").ran().expect("a free lock");
        proxy.set(mode);
        let (recorded, ()) = tokio::join!(guard.record("x", MINUTE), async {
            sleep(H::REQUEST_TIMEOUT * 2).await;
            proxy.set(Mode::Pass);
            proxy.cut();
        });
        recorded.expect("a run is to be recorded while its lock is held");
        let again = once(&observer).begin().await.expect("an answer");
        assert!(matches!(again, OnceOutcome::Done(by) if by == guard.token()), "{again:?}");
        released(guard).await;
    }
}

/// Returns true if the backend records runs: others refuse before anything is sent.
async fn records_runs(client: &LockClient) -> bool {
    let begun = client.once(fresh_name()).occurrence("x").begin().await;
    !matches!(begun, Err(LockError::Unsupported { .. }))
}
