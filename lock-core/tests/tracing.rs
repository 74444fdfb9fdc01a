//! Events of a client by `tracing`: every step of a lock's life, and no owner.

#![allow(clippy::expect_used, clippy::panic)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockClient, LockError, LockName, LockRequest, LostReason, MemoryBackend, Wait};
use lock_testkit::{Fault, Faulty, Foreign, Operation};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }

    /// Counts the lines that contain all of `parts`.
    fn lines(&self, parts: &[&str]) -> usize {
        self.text().lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// Records all events of this thread.
fn listen() -> (Log, impl Drop) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test(start_paused = true)]
async fn each_step_is_told_with_name_and_token() {
    let (log, _listening) = listen();
    let store = MemoryBackend::new();
    let (one, two) = (LockClient::new(store.clone()), LockClient::new(store));
    let guard = one.acquire(LockRequest::new("stock").ttl(Duration::from_secs(3))).await;
    let guard = guard.expect("a free lock");
    let token = format!("token={}", guard.token());
    assert_eq!(log.lines(&["acquire{backend=\"memory\" name=stock}", &token, "acquired"]), 1);

    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(log.lines(&["name=stock", &token, "renewed", "late="]) >= 1, "{}", log.text());

    let busy = two.try_acquire("stock").await.expect("an answer");
    assert!(busy.is_none());
    assert_eq!(log.lines(&["not acquired", "stock"]), 1);

    let (released, next) = tokio::join!(guard.release(), two.acquire("stock"));
    released.expect("an answer");
    let next = next.expect("its turn comes");
    assert_eq!(log.lines(&["ended", &token, "held=2", "its holder gave it up"]), 1);
    let owner = next.detach().expect("held").owner().expose();
    assert!(!log.text().contains(&owner[8..]), "an owner is shown: {}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_is_told() {
    let (log, _listening) = listen();
    let store = MemoryBackend::new();
    let (one, two) = (LockClient::new(store.clone()), LockClient::new(store));
    let guard = one.acquire("stock").await.expect("a free lock");
    let (next, ()) = tokio::join!(two.acquire("stock"), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        guard.release().await.expect("an answer");
    });
    let token = format!("token={}", next.expect("its turn comes").token());
    assert_eq!(log.lines(&["busy", "position=0"]), 1);
    assert_eq!(log.lines(&["handed over", &token]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_a_warning() {
    let (log, _listening) = listen();
    let locks = LockClient::new(MemoryBackend::new());
    let guard = locks.acquire("stock").await.expect("a free lock");
    locks.admin().evict("stock").await.expect("an answer");
    guard.lost().await;
    assert_eq!(log.lines(&["WARN", "lost", "name=stock", "the server says"]), 1);
}

/// C12: an outage is told at its beginning and at its end, and not for each hold and try.
#[tokio::test(start_paused = true)]
async fn c12_an_outage_is_two_lines_however_many_holds_it_has() {
    const HOLDS: usize = 300;
    let (log, _listening) = listen();
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let locks = LockClient::new(faulty.clone());
    let mut guards = Vec::new();
    for i in 0..HOLDS {
        guards.push(locks.acquire(format!("held-{i}")).await.expect("a free lock"));
    }
    let of = format!("holds={HOLDS}");
    // A renewal that is due at the start of an outage leaves two thirds of the TTL, which are 20 s.
    for (outages, span, lost) in [(1, 15, 0), (2, 15, 0), (3, 60, HOLDS)] {
        faulty.always(Operation::Extend, Fault::RequestLost);
        tokio::time::sleep(Duration::from_secs(span)).await;
        faulty.heal();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(log.lines(&["WARN"]), outages + lost, "{}", log.text());
        assert_eq!(log.lines(&["WARN", "renewals fail", &of, "failed=", "held-"]), outages);
        assert_eq!(log.lines(&["INFO"]), outages, "{}", log.text());
        let (failed, gone) = (format!("failed={HOLDS} "), format!("lost={lost} "));
        let over = ["INFO", "no renewal fails any more", &failed, &gone, "lasted="];
        assert!(log.lines(&over) >= 1, "{}", log.text());
    }
    assert_eq!(log.lines(&["WARN", "lost", "name=held-"]), HOLDS, "each loss is told");
    assert!(log.lines(&["DEBUG", "renewal failed", "name=held-7 "]) > 3, "each try is told");
}

/// C8: a loss names its cause, in the log and in the error; so does the first failed renewal.
#[tokio::test(start_paused = true)]
async fn c08_a_loss_names_its_cause() {
    for (fault, cause) in [
        (Fault::Forbidden, "a right is missing"),
        (Fault::RequestLost, "a fault of the test"),
        (Fault::Silence, "no answer within"),
    ] {
        let (log, _listening) = listen();
        let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
        let guard = LockClient::new(faulty.clone()).acquire("stock").await.expect("a free lock");
        faulty.always(Operation::Extend, fault);
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(log.lines(&["WARN", "renewals fail", "name=stock", cause]) == 1, "{}", log.text());
        assert_eq!(log.lines(&["WARN", "lost", "name=stock", cause]), 1, "{}", log.text());
        let error = guard.release().await.expect_err("it is lost").to_string();
        assert!(error.contains(cause), "{error}");
    }
}

/// C13: if nothing failed, the cause is the bound.
#[tokio::test(start_paused = true)]
async fn c13_the_end_of_a_bound_is_a_reason_of_its_own() {
    let (log, _listening) = listen();
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    let locks = LockClient::new(faulty.clone());
    let request = LockRequest::new("stock").max_hold(Duration::from_secs(40));
    let guard = locks.acquire(request.clone()).await.expect("a free lock");
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    assert_eq!(log.lines(&["WARN", "lost", "`max_hold` ended"]), 1, "{}", log.text());
    drop(guard);
    let guard = locks.acquire(request).await.expect("a free lock");
    faulty.always(Operation::Extend, Fault::RequestLost);
    assert_eq!(guard.lost().await, LostReason::Expired, "a renewal failed before the bound");
}

/// Ends a hold in one of the possible ways.
async fn end_a_hold(locks: &LockClient, way: &str) {
    match way {
        "release" => {
            let guard = locks.acquire("stock").await.expect("a free lock");
            guard.release().await.expect("a refusal is no loss");
        }
        "drop" => drop(locks.acquire("stock").await.expect("a free lock")),
        "several" => {
            let guard = locks.acquire_all(["stock"]).await.expect("a free lock");
            guard.release().await.expect("a refusal is no loss");
        }
        "resign" => {
            let leadership = locks.election("stock").label("me").campaign().await.expect("elected");
            leadership.resign().await.expect("a refusal is no loss");
        }
        "with" => {
            let finished = locks.with("stock", async |_| ()).await.expect("a free lock");
            finished.into_value().expect("a refusal is no loss");
        }
        "once" => {
            let run = locks.once("stock").run(async |_| ());
            let ran = run.await.expect("an answer").ran().expect("a free lock");
            ran.into_value().expect("a refusal is no loss");
        }
        "shutdown" => {
            let _guard = locks.acquire("stock").await.expect("a free lock");
            locks.shutdown().await;
        }
        _ => unreachable!("{way}"),
    }
}

const WAYS: [&str; 7] = ["release", "drop", "several", "resign", "with", "once", "shutdown"];

fn without_release(fault: Fault) -> LockClient {
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    faulty.always(Operation::Release, fault);
    LockClient::new(faulty)
}

/// C47: a lock that stays after its release is reported once, at once, with its cause.
#[tokio::test(start_paused = true)]
async fn c47_a_release_that_is_refused_is_a_warning_at_once() {
    for way in WAYS {
        let (log, _listening) = listen();
        end_a_hold(&without_release(Fault::Forbidden), way).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let told = ["WARN", "not released", "name=stock", "a right is missing"];
        assert_eq!(log.lines(&told), 1, "by {way}: {}", log.text());
        assert_eq!(log.lines(&["WARN"]), 1, "by {way}: {}", log.text());
    }
}

/// C47: a silent server is asked again, and a lock that stays in the end is reported then.
#[tokio::test(start_paused = true)]
async fn c47_a_release_without_an_answer_is_a_warning_in_the_end() {
    for way in WAYS {
        let (log, _listening) = listen();
        let locks = without_release(Fault::RequestLost);
        let ending = end_a_hold(&locks, way);
        if way != "shutdown" {
            ending.await;
            assert_eq!(log.lines(&["WARN"]), 0, "by {way}: {}", log.text());
            tokio::time::sleep(Duration::from_secs(62)).await;
        } else {
            ending.await;
        }
        let told = ["WARN", "not released", "name=stock", "a fault of the test"];
        assert_eq!(log.lines(&told), 1, "by {way}: {}", log.text());
    }
}

/// C49: only an operator can end such a wait, and operators see only warnings.
#[tokio::test(start_paused = true)]
async fn c49_a_wait_for_a_key_without_a_ttl_warns_once_after_a_second() {
    let (log, _listening) = listen();
    let faulty = Faulty::new(Arc::new(MemoryBackend::new()));
    faulty.put(&LockName::new("stock").expect("a name"), Foreign::KeyWithoutTtl);
    let locks = LockClient::new(faulty);
    let parts =
        ["WARN", "backend=\"memory\"", "name=stock", "a key without a TTL that is not ours"];
    for (wait, warnings) in [(800, 0), (10_000, 1)] {
        let request = LockRequest::new("stock").wait(Wait::AtMost(Duration::from_millis(wait)));
        assert!(locks.acquire(request).await.is_err());
        assert_eq!(log.lines(&parts), warnings, "after {wait} ms: {}", log.text());
    }
    locks.acquire("free").await.expect("a free lock").release().await.expect("it was held");
    assert_eq!(log.lines(&["WARN"]), 1, "{}", log.text());
}

/// C33: a client that counts another number of permits holds up all others, and operators see only warnings: its own, and
/// those of the clients that wait behind it, or for it.
#[tokio::test(start_paused = true)]
async fn c33_a_wait_for_another_number_of_permits_warns_once_after_a_second() {
    let (log, _listening) = listen();
    let store = MemoryBackend::new();
    let [holder, wrong, right] = [(); 3].map(|()| LockClient::new(store.clone()));
    let request = |of, label: &str, wait| {
        let wait = Wait::AtMost(Duration::from_millis(wait));
        LockRequest::new("stock").permits(1, of).wait(wait).label(label)
    };
    let lines = |fields: [&str; 4]| {
        let parts = ["WARN", "backend=\"memory\"", "name=stock", "another number of permits"];
        log.lines(&[&parts[..], &fields].concat())
    };
    let own = ["asked=5", "label=web-2", "other=3", "of=web-1"];
    let others = ["asked=3", "label=web-3", "other=5", "of=web-2"];
    let guard = holder.acquire(request(3, "web-1", 0)).await.expect("a free lock");
    assert!(wrong.acquire(request(5, "web-2", 800)).await.is_err());
    assert_eq!((lines(own), lines(others)), (0, 0), "{}", log.text());
    let waiting = wrong.acquire(request(5, "web-2", 10_000));
    let behind = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        right.acquire(request(3, "web-3", 9_000)).await
    };
    let (waited, behind) = tokio::join!(waiting, behind);
    assert!(waited.is_err() && behind.is_err(), "{waited:?} {behind:?}");
    assert_eq!((lines(own), lines(others)), (1, 1), "{}", log.text());
    guard.release().await.expect("it was held");

    let _guard = wrong.acquire(request(5, "web-2", 100)).await.expect("a free lock");
    assert!(right.acquire(request(3, "web-3", 9_000)).await.is_err());
    assert_eq!((lines(own), lines(others)), (1, 2), "{}", log.text());
    assert_eq!(log.lines(&["WARN"]), 3, "{}", log.text());
}

/// C43: a task that acquires a lock again that it holds would wait for ever, without any sign of the reason.
#[tokio::test(start_paused = true)]
async fn c43_a_wait_for_the_clients_own_hold_warns_once_after_a_second() {
    let (log, _listening) = listen();
    let store = MemoryBackend::new();
    let (one, two) = (LockClient::new(store.clone()), LockClient::new(store));
    let request = |label| LockRequest::new("stock").label(label);
    let guard = one.acquire(request("me")).await.expect("a free lock");
    let parts = ["WARN", "backend=\"memory\"", "name=stock", "label=me", "this client holds"];
    for (client, label, wait, warnings) in [
        (&two, "me", 10_000, 0),
        (&one, "me", 800, 0),
        (&one, "another", 10_000, 0),
        (&one, "me", 10_000, 1),
    ] {
        let wait = Wait::AtMost(Duration::from_millis(wait));
        assert!(client.acquire(request(label).wait(wait)).await.is_err());
        assert_eq!(log.lines(&parts), warnings, "{label} after {wait:?}: {}", log.text());
    }
    guard.release().await.expect("held to the end");
    let _unlabelled = one.acquire("stock").await.expect("a free lock");
    let wait = Wait::AtMost(Duration::from_secs(10));
    assert!(one.acquire(LockRequest::new("stock").wait(wait)).await.is_err());
    assert_eq!(log.lines(&["WARN"]), 1, "a line of tasks without labels: {}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquisition_is_told() {
    let (log, _listening) = listen();
    let locks = LockClient::new(MemoryBackend::new());
    let _guard = locks.acquire("stock").await.expect("a free lock");
    let waiting = locks.acquire("stock");
    assert!(tokio::time::timeout(Duration::from_secs(1), waiting).await.is_err());
    assert_eq!(log.lines(&["acquisition dropped", "name=stock", "waited=1"]), 1);
    let request = LockRequest::new("stock").wait(Wait::AtMost(Duration::from_secs(1)));
    let refused = locks.acquire(request).await;
    assert!(matches!(refused, Err(LockError::Timeout { .. })));
    assert_eq!(log.lines(&["not acquired", "waited=1"]), 1);
}
