//! A store of one value, whose clock counts whole seconds.

use super::*;
use crate::model::{Lease, LockRequest};

const ERROR: Duration = Duration::from_secs(2);

fn at(seconds: u64) -> ClockReading {
    ClockReading { error: ERROR, ..ClockReading::exact(Duration::from_secs(seconds)) }
}

fn claim(seconds: u64) -> Claim {
    LockRequest::new("a").ttl(Duration::from_secs(seconds)).claim().expect("a good claim")
}

fn lock() -> Register {
    Register::new(LockName::new("a").expect("a name"))
}

fn granted(attempt: Result<Attempt, BackendError>) -> FencingToken {
    match attempt.expect("an answer") {
        Attempt::Granted(grant) => grant.token,
        Attempt::Busy(seen) => panic!("{seen}"),
    }
}

fn renewal(claim: &Claim, token: FencingToken, seconds: u64) -> Renewal {
    let text = format!("lease1:{}:{token}:1000:a", claim.owner.expose());
    let ttl = Ttl::new(Duration::from_secs(seconds)).expect("a TTL");
    Renewal::new(&Lease::import(&text).expect("a lease"), ttl)
}

#[test]
fn c05_a_hold_lasts_longer_by_the_error_of_the_clock() {
    let (mut lock, one, two) = (lock(), claim(10), claim(10));
    granted(lock.acquire("test", &one, at(100)));
    let busy = lock.acquire("test", &two, at(111)).expect("an answer");
    assert!(matches!(busy, Attempt::Busy(_)), "two holders");
    assert_eq!(
        lock.state(at(100)).holder().cloned().expect("held").ttl_left,
        Some(Duration::from_secs(10))
    );
    assert_eq!(lock.state(at(112)).holder(), None);
    granted(lock.acquire("test", &two, at(112)));
}

#[test]
fn c10_an_extension_shortens_nothing_and_makes_nothing_anew() {
    let (mut lock, claim) = (lock(), claim(60));
    let token = granted(lock.acquire("test", &claim, at(100)));
    let kept = Extension::Extended(Duration::from_secs(1));
    assert_eq!(lock.extend(&renewal(&claim, token, 1), at(101)), kept);
    assert!(lock.state(at(161)).holder().is_some(), "it was shortened");
    assert_eq!(lock.extend(&renewal(&claim, token, 60), at(162)), Extension::Lost);
    let next = granted(lock.acquire("test", &claim, at(163)));
    assert_eq!(lock.extend(&renewal(&claim, token, 60), at(164)), Extension::Lost);
    assert!(next > token);
}

#[test]
fn c19_a_withdrawn_claim_is_refused_and_forgotten_in_time() {
    let (mut lock, gone, other) = (lock(), claim(60), claim(60));
    granted(lock.acquire("test", &gone, at(100)));
    lock.withdraw(gone.owner, at(101));
    assert!(lock.acquire("test", &gone, at(131)).is_err(), "a ghost took the lock");
    assert_eq!(lock.state(at(131)).holder(), None);
    lock.withdraw(other.owner, at(134));
    assert_eq!(lock.withdrawn.len(), 1, "what is long over is remembered");
}

#[test]
fn c22_tokens_grow_also_where_the_register_was_lost_in_the_same_second() {
    let (mut kept, claim) = (lock(), claim(60));
    let mut last = granted(kept.acquire("test", &claim, at(99)));
    for _ in 0..100 {
        kept.release(claim.owner, at(100));
        let next = granted(kept.acquire("test", &claim, at(100)));
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    let reborn = granted(lock().acquire("test", &claim, at(100)));
    assert!(reborn > last, "{reborn} after {last}");
}

#[test]
fn c22_a_clock_far_ahead_has_no_say() {
    let ahead = ClockReading::exact(Duration::from_secs(1 << 33));
    let token = granted(lock().acquire("test", &claim(60), ahead));
    assert!(token.get() < 1 << 52, "{token}");
}

#[test]
fn c32_no_register_shows_an_owner() {
    let (mut lock, claim) = (lock(), claim(60));
    granted(lock.acquire("test", &claim, at(100)));
    assert!(!format!("{lock:?}").contains(&claim.owner.expose()[8..]));
}

#[test]
fn c42_a_run_is_recorded_by_its_holder_alone_and_for_its_time() {
    let (mut lock, one) = (lock(), claim(10));
    let token = granted(lock.acquire("test", &one, at(100)));
    let text = format!("lease1:{}:{token}:1000:a", one.owner.expose());
    let lease = Lease::import(&text).expect("a lease");
    let day = Occurrence::new("day").expect("an occurrence");
    let minute = Duration::from_secs(60);
    let record = Record::new(&lease, day.clone(), minute).expect("a good span");
    assert_eq!(lock.record(&record, at(100)), Recording::Recorded);
    assert_eq!(lock.remembers_until(), Some(Duration::from_secs(162)));
    assert_eq!(lock.runs(Some(&day), at(160)).pop().map(|run| run.token), Some(token));
    assert_eq!(lock.runs(Some(&day), at(162)), []);
    assert_eq!(lock.release(one.owner, at(101)), Release::Released);
    assert_eq!(lock.record(&record, at(101)), Recording::Lost);
    let next = granted(lock.acquire("test", &one, at(102)));
    assert!(next > token && lock.record(&record, at(103)) == Recording::Lost);
}

/// S3: a value that is not fully understood may be a lock that is held.
#[cfg(feature = "serde")]
#[test]
fn s3_a_register_of_a_later_format_is_not_read() {
    use serde_json::{Value, from_value, json, to_value};

    let (mut lock, claim) = (lock(), claim(10));
    let token = granted(lock.acquire("test", &claim, at(100)));
    lock.withdraw(OwnerId::random(), at(101));
    let text = format!("lease1:{}:{token}:1000:a", claim.owner.expose());
    let lease = Lease::import(&text).expect("a lease");
    let day = Occurrence::new("monday").expect("an occurrence");
    lock.record(&Record::new(&lease, day, Duration::from_secs(60)).expect("a good span"), at(101));
    let whole = to_value(&lock).expect("JSON");
    assert_eq!(whole["format"], 1);
    assert!(from_value::<Register>(whole.clone()).is_ok_and(|read| read == lock));

    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = whole.clone();
        change(&mut value);
        from_value::<Register>(value)
    };
    let changes: [&dyn Fn(&mut Value); 7] = [
        &|value| value["format"] = json!(2),
        &|value| drop(value.as_object_mut().map(|fields| fields.remove("format"))),
        &|value| value["shared"] = json!([]),
        &|value| value["lock"] = json!(format!("{}\t", value["lock"].as_str().expect("a text"))),
        &|value| value["withdrawn"][0]["why"] = json!(""),
        &|value| value["runs"][0]["by"] = json!(""),
        &|value| drop(value.as_object_mut().map(|fields| fields.remove("runs"))),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(changed(change).is_err(), "{index}");
    }
}

/// Any value of a store is a register that answers each request, or is refused.
#[cfg(feature = "serde")]
#[test]
fn fuzz_values() {
    const OWNER: &str = "0123456789abcdef0123456789abcdef";
    lock_fuzz::check(
        |(format, label, [last, token, run], ends, now): &(u8, u64, [u64; 3], u32, u32)| {
            let (label, ends) = (lock_fuzz::any_text(*label), u64::from(*ends));
            let until = serde_json::json!({ "secs": ends, "nanos": 0 });
            let (last, token, run) = (last >> 11, token >> 11, run >> 11);
            let value = serde_json::json!({
                "format": format % 3, "name": "a",
                "lock": format!("{last}\n{OWNER}\t{token}\texclusive\t\t{ends:011}000000000\t{label}\t{run}"),
                "withdrawn": [{ "owner": OWNER, "until": until }],
                "runs": [{ "occurrence": "b", "token": run, "until": until }],
            });
            let Ok(mut lock) = serde_json::from_value::<Register>(value.clone()) else { return };
            assert_eq!(serde_json::to_value(&lock).expect("a value"), value);
            assert!(!format!("{lock:?} {:?}", lock.state(at(u64::from(*now)))).contains(OWNER));
            let (claim, at) = (claim(10), at(u64::from(*now)));
            let _ =
                (lock.acquire("test", &claim, at), lock.runs(None, at), lock.evict(&Whom::All, at));
            lock.withdraw(claim.owner, at);
        },
    );
}
