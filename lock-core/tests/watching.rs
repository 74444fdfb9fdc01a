//! Watches and elections, in virtual time: delays of changes, outages of observers, and changes that an observer
//! is not shown.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use lock_core::{
    ClientOptions, Drift, FencingToken, InputKind, LockClient, LockError, LockRequest, LockState,
    MemoryBackend, Observer,
};
use lock_testkit::{Fault, Faulty, Foreign, Operation};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// A poll that never comes.
const NEVER: Duration = Duration::MAX;

fn faulty_client() -> (LockClient, Faulty) {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    (LockClient::new(faulty.clone()), faulty)
}

fn token(state: Result<LockState, LockError>) -> Option<FencingToken> {
    state.expect("an answer").holder().cloned().and_then(|holder| holder.token)
}

#[tokio::test(start_paused = true)]
async fn c44_a_change_that_is_not_told_costs_one_poll() {
    let (client, faulty) = faulty_client();
    faulty.tell_no_changes();
    let mut watch = client.admin().watch("a");
    watch.next().await.expect("an answer");
    let guard = client.acquire("a").await.expect("a free lock");
    let changed = Instant::now();
    assert_eq!(token(watch.next().await), Some(guard.token()));
    assert!(changed.elapsed() <= SECOND + SECOND / 10, "{:?}", changed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c44_a_watch_without_push_looks_as_often_as_it_was_told() {
    let (client, faulty) = faulty_client();
    faulty.tell_no_changes();
    let mut watch = client.admin().watch("a").poll_every(SECOND * 10);
    watch.next().await.expect("an answer");
    assert!(timeout(SECOND * 100, watch.next()).await.is_err(), "nothing changed");
    assert_eq!(faulty.calls(Operation::Inspect), 10 + 1);
}

#[tokio::test(start_paused = true)]
async fn c44_a_renewal_is_no_change_and_an_end_of_a_ttl_is_one() {
    let (client, _) = faulty_client();
    let mut watch = client.admin().watch("a");
    watch.next().await.expect("an answer");
    let guard = client.acquire(LockRequest::new("a").ttl(SECOND * 10)).await.expect("a free lock");
    assert_eq!(token(watch.next().await), Some(guard.token()));
    assert!(timeout(SECOND * 60, watch.next()).await.is_err(), "it is renewed, and no more");
    // Nobody renews it from now on.
    drop(guard.detach().expect("held"));
    let detached = Instant::now();
    assert_eq!(token(watch.next().await), None);
    assert!(detached.elapsed() <= SECOND * 11 + SECOND / 10, "{:?}", detached.elapsed());
}

#[tokio::test(start_paused = true)]
async fn c44_a_waiter_is_a_change() {
    let (client, _) = faulty_client();
    let mut watch = client.admin().watch("a").poll_every(NEVER);
    let _guard = client.acquire("a").await.expect("a free lock");
    assert_eq!(watch.next().await.expect("an answer").waiters, Some(0));
    let waiter = client.clone();
    let waiter = tokio::spawn(async move { waiter.acquire("a").await });
    assert_eq!(watch.next().await.expect("an answer").waiters, Some(1));
    waiter.abort();
    assert_eq!(watch.next().await.expect("an answer").waiters, Some(0));
}

#[tokio::test(start_paused = true)]
async fn c44_an_outage_is_waited_out_and_told_once() {
    let (client, faulty) = faulty_client();
    let outages = Arc::new(AtomicUsize::new(0));
    let told = outages.clone();
    let mut watch = client.admin().watch("a").on_outage(move |error| {
        assert!(error.is_transient(), "{error}");
        told.fetch_add(1, Ordering::Relaxed);
    });
    watch.next().await.expect("an answer");
    let guard = client.acquire("a").await.expect("a free lock");
    faulty.always(Operation::Inspect, Fault::Refused);
    assert!(timeout(SECOND * 60, watch.next()).await.is_err(), "no answer");
    assert_eq!(outages.load(Ordering::Relaxed), 1);
    faulty.heal();
    assert_eq!(token(watch.next().await), Some(guard.token()));
}

#[tokio::test(start_paused = true)]
async fn c44_what_will_not_pass_is_an_item_of_the_stream_and_not_its_end() {
    let (client, faulty) = faulty_client();
    let guard = client.acquire("a").await.expect("a free lock");
    faulty.put(guard.name(), Foreign::NoLock);
    let mut items = client.admin().watch("a").into_stream();
    let asked = Instant::now();
    for _ in 0..2 {
        let item = items.next().await.expect("it never ends");
        assert!(matches!(item, Err(LockError::NotALock { .. })), "{item:?}");
    }
    assert!(asked.elapsed() >= SECOND, "an error is not to be asked for without a pause");
    let unnamed = client.admin().watch("").next().await;
    assert!(
        matches!(&unnamed, Err(LockError::Invalid(input)) if input.kind() == InputKind::Name),
        "{unnamed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn c44_a_call_that_is_dropped_loses_no_change() {
    let (client, faulty) = faulty_client();
    let mut watch = client.admin().watch("a").poll_every(NEVER);
    watch.next().await.expect("an answer");
    let guard = client.acquire("a").await.expect("a free lock");
    faulty.once(Operation::Inspect, Fault::Late(SECOND / 2));
    // The observer was told of the change, and looks.
    assert!(timeout(SECOND / 4, watch.next()).await.is_err(), "the answer is late");
    let shown = timeout(SECOND, watch.next()).await.expect("the change is shown");
    assert_eq!(token(shown), Some(guard.token()));
}

#[tokio::test(start_paused = true)]
async fn c44_a_busy_lock_is_looked_at_a_hundred_times_a_second() {
    let (client, faulty) = faulty_client();
    let mut watch = client.admin().watch("a");
    let busy = async {
        for _ in 0..1000 {
            client.acquire("a").await.expect("a free lock").release().await.expect("held");
            sleep(SECOND / 1000).await;
        }
    };
    tokio::select! {
        () = busy => {}
        never = async { loop { watch.next().await.expect("an answer"); } } => never,
    }
    let looks = faulty.calls(Operation::Inspect);
    assert!((50..=250).contains(&looks), "{looks} looks in two seconds");
}

#[tokio::test(start_paused = true)]
async fn c44_a_listing_is_watched_as_well() {
    let (client, _) = faulty_client();
    let mut watch = client.admin().watch_list("job/", 10);
    assert!(watch.next().await.expect("an answer").is_empty());
    let one = client.acquire("job/1").await.expect("a free lock");
    let _other = client.acquire("other").await.expect("a free lock");
    assert_eq!(watch.next().await.expect("an answer").len(), 1);
    let _two = client.acquire("job/2").await.expect("a free lock");
    assert_eq!(watch.next().await.expect("an answer").len(), 2);
    one.release().await.expect("held");
    let left = watch.next().await.expect("an answer");
    assert_eq!(left[0].name.as_str(), "job/2");
}

async fn term(observer: &mut Observer) -> Option<FencingToken> {
    observer.next().await.expect("an answer").map(|leader| leader.term)
}

/// Observers see each leader, even if campaigns of one process follow each other. A plain lock would then pass
/// from task to task without a request.
#[tokio::test(start_paused = true)]
async fn c40_each_leader_of_one_client_is_shown() {
    let (client, _) = faulty_client();
    let election = client.election("a");
    let mut observer = election.observe().poll_every(NEVER);
    assert_eq!(term(&mut observer).await, None);
    let first = election.clone().label("first").campaign().await.expect("nobody else");
    assert_eq!(term(&mut observer).await, Some(first.term()));
    let candidates: Vec<_> = (0..3)
        .map(|_| {
            let election = election.clone();
            tokio::spawn(async move { election.clone().label("next").campaign().await })
        })
        .collect();
    sleep(SECOND).await;
    let mut leading = first;
    for candidate in candidates {
        let last = leading.term();
        leading.resign().await.expect("it leads to the end");
        leading = candidate.await.expect("no panic").expect("its turn comes");
        assert!(leading.term() > last);
        let shown = loop {
            match term(&mut observer).await {
                None => {}
                Some(shown) if shown == last => {}
                Some(shown) => break shown,
            }
        };
        assert_eq!(shown, leading.term());
    }
}

/// C40: an endless campaign survives an outage of any length. A bounded one ends within its wait.
#[tokio::test(start_paused = true)]
async fn c40_an_endless_campaign_outlasts_an_outage() {
    let (client, faulty) = faulty_client();
    faulty.always(Operation::Acquire, Fault::Silence);
    let election = client.election("a");
    let bounded = election.clone().wait(SECOND * 20).campaign().await;
    assert!(bounded.is_err_and(|error| error.is_transient()), "it ends with its wait");
    let (leadership, ()) = tokio::join!(election.campaign(), async {
        sleep(SECOND * 3600).await;
        faulty.heal();
    });
    leadership.expect("still a candidate").resign().await.expect("it leads to the end");
}

/// C5: a TTL that is no longer than the client's margin is refused without a wait.
#[tokio::test(start_paused = true)]
async fn c05_a_ttl_within_the_margin_is_refused() {
    let options = ClientOptions::new().drift(Drift::new(0.0, SECOND * 5));
    let client = LockClient::with_options(MemoryBackend::new(), options);
    let refused = client.election("a").ttl(SECOND * 5).campaign().await;
    let Err(LockError::Invalid(invalid)) = &refused else { panic!("{refused:?}") };
    assert_eq!(invalid.kind(), InputKind::Ttl);
    let text = invalid.to_string();
    assert!(text.contains("invalid TTL 5s") && text.contains("choose a longer TTL"), "{text}");
    let longer = client.election("a").ttl(SECOND * 6).campaign().await.expect("nobody else");
    assert!(longer.remaining() <= SECOND, "{longer:?}");
}

/// A plain holder passes its hold on under a token that the server does not show. A candidate gets its term from
/// the server.
#[tokio::test(start_paused = true)]
async fn c40_a_candidate_takes_no_hold_that_is_passed() {
    let (client, _) = faulty_client();
    let first = client.acquire("a").await.expect("a free lock");
    let election = client.election("a");
    let waiting = {
        let (client, election) = (client.clone(), election.clone());
        let plain = tokio::spawn(async move { client.acquire("a").await });
        tokio::task::yield_now().await;
        (plain, tokio::spawn(async move { election.clone().label("candidate").campaign().await }))
    };
    sleep(SECOND / 100).await;
    first.release().await.expect("held");
    let second = waiting.0.await.expect("no panic").expect("its turn comes");
    second.release().await.expect("held");
    let leadership = waiting.1.await.expect("no panic").expect("its turn comes");
    let leader = election.leader().await.expect("an answer").expect("it leads");
    assert_eq!((leader.term, leader.label.as_str()), (leadership.term(), "candidate"));
}

/// If a leader passed its hold on without a request, observers would see the former leader, with the former term.
#[tokio::test(start_paused = true)]
async fn c40_a_leader_passes_its_hold_to_nobody() {
    let (client, _) = faulty_client();
    let election = client.election("a");
    let leadership = election.clone().label("leader").campaign().await.expect("nobody else");
    let plain = client.clone();
    let plain = tokio::spawn(async move { plain.acquire("a").await });
    sleep(SECOND / 1000).await;
    leadership.resign().await.expect("it leads to the end");
    let next = plain.await.expect("no panic").expect("its turn comes");
    assert_eq!(election.leader().await.expect("an answer"), None, "nobody was elected");
    let state = client.admin().inspect("a").await.expect("an answer");
    assert_eq!(state.holder().and_then(|holder| holder.token), Some(next.token()));
}

/// C40: if answers of a store overtake each other, an observer sees no lower term, and in the end all leaders.
#[tokio::test(start_paused = true)]
async fn c40_an_answer_that_is_overtaken_is_not_shown() {
    let (client, faulty) = faulty_client();
    let election = client.election("a");
    let mut observer = election.observe();
    let first = election.clone().label("first").campaign().await.expect("nobody else");
    let of_earlier = client.admin().inspect("a").await.expect("an answer");
    assert_eq!(term(&mut observer).await, Some(first.term()));
    first.resign().await.expect("it leads to the end");
    let second = election.clone().label("second").campaign().await.expect("nobody else");
    assert_eq!(term(&mut observer).await, Some(second.term()));
    faulty.answer_late(of_earlier.clone());
    faulty.answer_late(of_earlier);
    second.resign().await.expect("it leads to the end");
    assert_eq!(term(&mut observer).await, None);
    let third = election.clone().label("third").campaign().await.expect("nobody else");
    assert_eq!(term(&mut observer).await, Some(third.term()));
}

/// C44: a caller that drops each call after 10 ms, as a loop of `select!` does, sees the states of a slow server.
#[tokio::test(start_paused = true)]
async fn c44_a_look_goes_on_with_the_next_call() {
    let (client, faulty) = faulty_client();
    for operation in [Operation::Inspect, Operation::List] {
        faulty.always(operation, Fault::Late(SECOND / 5));
    }
    let (mut watch, mut list) = (client.admin().watch("a"), client.admin().watch_list("", 10));
    let guard = client.acquire("a").await.expect("a free lock");
    let (mut seen, mut listed) = (None, None);
    for _ in 0..100 {
        seen = timeout(SECOND / 100, watch.next()).await.ok().or(seen);
        listed = timeout(SECOND / 100, list.next()).await.ok().or(listed);
    }
    assert_eq!(token(seen.expect("it is shown")), Some(guard.token()));
    assert_eq!(listed.expect("it is shown").expect("an answer").len(), 1);
    assert_eq!((faulty.calls(Operation::Inspect), faulty.calls(Operation::List)), (2, 2));
}

/// C44: a shutdown of its client ends a watch.
#[tokio::test(start_paused = true)]
async fn c44_a_shutdown_ends_a_watch() {
    let (client, _) = faulty_client();
    let (mut watch, mut list) = (client.admin().watch("a"), client.admin().watch_list("", 10));
    let states = client.admin().watch("a").into_stream();
    let leaders = client.election("a").observe().into_stream();
    watch.next().await.expect("an answer");
    list.next().await.expect("an answer");
    let both = async { (states.collect::<Vec<_>>().await, leaders.collect::<Vec<_>>().await) };
    let ended = async { tokio::join!(watch.next(), list.next(), both) };
    let (ended, ()) = tokio::join!(timeout(SECOND * 60, ended), async {
        sleep(SECOND).await;
        client.shutdown().await;
    });
    let (state, held, (states, leaders)) = ended.expect("a watch goes on");
    assert!(matches!(state, Err(LockError::Closed { .. })), "{state:?}");
    let told = held.expect_err("it is shut down").to_string();
    assert!(told.contains("the client was shut down"), "{told}");
    assert!(matches!(states.last(), Some(Err(LockError::Closed { .. }))), "{states:?}");
    assert!(matches!(leaders.last(), Some(Err(LockError::Closed { .. }))), "{leaders:?}");
}
