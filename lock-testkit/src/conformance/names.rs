//! C1 to C4, C30, C32: names, owners, TTLs, and their texts.

use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use super::harness::Harness;
use super::steps::{claim, client, faulty_client, fresh_name, options, patient, until_free};
use crate::Operation;
use lock_core::backend::Prefixed;
use lock_core::{
    Clock, Contention, Health, InputKind, LockClient, LockError, LockRequest, SystemClock, Ttl,
    Wait,
};

/// C1, C4: an invalid request is refused with a typed error, and nothing is sent.
pub async fn c01_a_bad_request_is_refused_before_any_io(harness: &dyn Harness) {
    let (client, faulty) = faulty_client(harness).await;
    let name = fresh_name();
    let long = "n".repeat(513);
    for bad in ["", "a\0b", "a\nb", "\u{1b}[2J", "*1\r\n$8\r\nFLUSHALL\r\n", &long] {
        let refused = client.acquire(bad).await;
        let is_refused = is_invalid(InputKind::Name, refused.as_ref().err());
        assert!(is_refused, "the name {bad:?} is to be refused: {refused:?}");
    }
    let refused_ttls =
        [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999), Duration::MAX];
    for bad in refused_ttls {
        let refused = client.acquire(LockRequest::from(&name).ttl(bad)).await;
        let is_refused = is_invalid(InputKind::Ttl, refused.as_ref().err());
        assert!(is_refused, "a TTL of {bad:?} is to be refused: {refused:?}");
    }
    let refused = client.acquire(LockRequest::from(&name).label("l".repeat(129))).await;
    let is_refused = is_invalid(InputKind::Label, refused.as_ref().err());
    assert!(is_refused, "a label of 129 bytes is to be refused: {refused:?}");
    let calls = faulty.calls(Operation::Acquire);
    assert_eq!(calls, 0, "a bad request is to be refused before anything is sent");
}

fn is_invalid(kind: InputKind, refused: Option<&LockError>) -> bool {
    matches!(refused, Some(LockError::Invalid(input)) if input.kind() == kind)
}

/// Parts of names that mean something to a store, a file system or a pattern.
const ODD: [&str; 25] = [
    "", "/b", ":fence", ":queue", "{}", "}", "{", "%7B", "%", "*", "?", "[a]", "\\", " ", "'",
    "\"", "; DROP TABLE locks", "$1", "🔒ü", "🔒u\u{308}", "..", "/../x", ".lock", "A", "a",
];

/// C2: every character of a name is data. Odd names are different locks, and are shown as they were given.
pub async fn c02_names_are_data(harness: &dyn Harness) {
    let (client, ttl) = (client(harness).await, harness.ttl() * 10);
    let tag = fresh_name();
    let mut names: Vec<String> = ODD.iter().map(|part| format!("{tag}{part}")).collect();
    names.push(format!("{{{tag}}}:fence"));
    let length = harness.longest_name();
    let longest = format!("{tag}{}", "n".repeat(length - tag.as_str().len()));
    names.push(format!("{}m", &longest[..length - 1]));
    names.push(longest);
    let mut guards = Vec::new();
    for name in &names {
        let request = LockRequest::new(name).ttl(ttl).wait(Wait::Never);
        let guard = client.acquire(request).await;
        guards.push(guard.unwrap_or_else(|error| {
            panic!("{name:?} is to be a lock of its own, apart from those before it: {error}")
        }));
    }
    let listed = client.admin().list(tag.as_str(), 1000).await.expect("a listing");
    let listed: HashSet<String> =
        listed.into_iter().map(|state| state.name.as_str().to_owned()).collect();
    for name in names.iter().filter(|name| name.starts_with(tag.as_str())) {
        assert!(listed.contains(name), "{name:?} is held, and is to be listed as it was given");
        let state = client.admin().inspect(name).await.expect("its state");
        assert_eq!(state.name.as_str(), name, "a lock is to be told by the name that was given");
        assert!(state.holder().is_some(), "{name:?} was granted, and is to be held");
    }
    let others = names.len() - 1;
    assert_eq!(listed.len(), others, "a listing is to hold what is held, and nothing else");
    client.shutdown().await;
}

/// C49: behind a prefix there are only the locks of the store whose names begin with it.
pub async fn c49_a_prefix_is_a_part_of_each_name(harness: &dyn Harness) {
    let (plain, tag) = (client(harness).await, fresh_name());
    let prefix = format!("{tag}*:");
    let prefixed = Prefixed::new(harness.connect().await, &prefix).expect("a good prefix");
    let shop = LockClient::with_options(prefixed, options(harness));
    let held = |name: &str| LockRequest::new(name).ttl(harness.ttl() * 10);
    let mut guards = Vec::new();
    for name in ["b", "a%"] {
        guards.push(shop.acquire(held(name)).await.expect("a free lock"));
    }
    // One name equals the prefix, the other would match it as a pattern.
    for name in [prefix.clone(), format!("{tag}x:a")] {
        guards.push(plain.acquire(held(&name)).await.expect("a free lock"));
    }
    let stored = format!("{prefix}b");
    assert!(plain.try_acquire(&*stored).await.expect("an answer").is_none(), "two holders");
    let names = async |start: &str, limit| {
        let states = shop.admin().list(start, limit).await.expect("a listing");
        states.into_iter().map(|state| state.name.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("", 9).await, ["a%", "b"]);
    assert_eq!(names("", 1).await, ["a%"], "what has no name there takes the place of another");
    assert_eq!(names("b", 9).await, ["b"]);
    assert_eq!(shop.admin().inspect("b").await.expect("its state").name.as_str(), "b");
    assert!(shop.admin().evict("b").await.expect("an answer").len() == 1);
    assert!(plain.admin().inspect(&*stored).await.expect("its state").holder().is_none());
    plain.shutdown().await;
    shop.shutdown().await;
}

/// C3: each acquisition draws a new owner, also for the same lock and client.
pub async fn c03_each_acquisition_has_an_owner_of_its_own(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    let mut owners = HashSet::new();
    for _ in 0..20 {
        let lease = client.acquire(&name).await.expect("a free lock").detach().expect("held");
        assert!(owners.insert(lease.owner()), "each acquisition is to have an owner id of its own");
        client.attach(lease).await.expect("held").release().await.expect("an answer");
    }
}

/// C4: the lease has the server's TTL, and its deadline is within the requested one.
pub async fn c04_a_lease_says_what_was_granted(harness: &dyn Harness) {
    let (client, name) = (client(harness).await, fresh_name());
    for asked in [harness.ttl(), harness.ttl() + Duration::from_micros(1)] {
        let before = SystemClock.now();
        let guard = client.acquire(LockRequest::from(&name).ttl(asked)).await.expect("a free lock");
        let lease = guard.detach().expect("held");
        let told = lease.ttl();
        assert!(told >= asked, "no less is to be granted than was asked: {told:?} for {asked:?}");
        let rounded = Ttl::new(asked).expect("a good TTL").as_duration();
        let latest = SystemClock.now().after(rounded);
        let bounded = latest.has_reached(lease.deadline()) && !before.has_reached(lease.deadline());
        assert!(bounded, "a deadline is to be within the TTL that was asked, {rounded:?}");
        client.attach(lease).await.expect("held").release().await.expect("an answer");
    }
}

/// C30: the abilities of a backend are data, and its behaviour agrees with them.
pub async fn c30_capabilities_are_data(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let capabilities = holder.capabilities();
    let told = !capabilities.backend.is_empty() && !capabilities.on_store_loss.is_empty();
    assert!(told, "a backend is to say what it is, and what a loss of its store does");
    let shown = capabilities.to_string();
    assert!(shown.contains(capabilities.backend), "the text is to name the backend: {shown}");
    assert_eq!(capabilities, other.capabilities(), "all connections are to say the same");
    let guard = holder.acquire(patient(&name, harness.long_ttl())).await.expect("a free lock");
    assert!(guard.is_held(), "a lock that was granted is to be held");
    guard.release().await.expect("an answer");
    until_free(harness, &other, &name).await;
}

/// C32, R3: neither `Debug` nor `Display` of anything shows an owner id.
pub async fn c32_no_text_shows_an_owner(harness: &dyn Harness) {
    let (holder, other, name) = (client(harness).await, client(harness).await, fresh_name());
    let guard = holder.acquire(LockRequest::from(&name).ttl(harness.ttl() * 10)).await;
    let guard = guard.expect("a free lock");
    let busy = other.acquire(LockRequest::from(&name).wait(Wait::Never)).await.expect_err("held");
    let state = other.admin().inspect(&name).await.expect("its state");
    let signal = guard.lost_signal();
    let mut shown = format!("{guard:?} {holder:?} {busy} {busy:?} {state:?} {signal:?}");
    shown += &Contention::unknown().to_string();
    let lease = guard.detach().expect("held");
    shown += &format!("{lease:?}");
    let secret = lease.owner().expose();
    assert!(!shown.contains(&secret[8..]), "no text is to show an owner id: {shown}");
    let holder_shown = state.holder().cloned().expect("held").owner;
    let first = Some(&secret[..8]);
    assert_eq!(holder_shown.as_deref(), first, "an inspection is to show 8 digits of the owner");
    holder.attach(lease).await.expect("held").release().await.expect("an answer");
}

/// C3, C32, R3: no error shows an owner id, neither in its text and `Debug` nor in those of its causes. Every backend
/// refuses the late request of a withdrawn claim with an error.
pub async fn c32_no_error_shows_an_owner(harness: &dyn Harness) {
    let (backend, name) = (harness.connect().await, fresh_name());
    let ghost = claim(&name, harness.ttl());
    backend.withdraw(&name, &[ghost.owner]).await.expect("an answer");
    let late = backend.acquire(&ghost, None).await;
    let error = late.expect_err("a late request of a withdrawn claim is to be refused");
    let secret = &ghost.owner.expose()[8..];
    for text in texts(&error) {
        assert!(!text.contains(secret), "no error is to show an owner id: {text}");
    }
}

/// Returns the texts of an error and its causes, for people and for programmers.
fn texts(error: &dyn Error) -> Vec<String> {
    let (mut texts, mut next) = (Vec::new(), Some(error));
    while let Some(cause) = next {
        texts.extend([cause.to_string(), format!("{cause:?}")]);
        next = cause.source();
    }
    texts
}

/// C31: the doctor checks the server, and has a remedy for each problem.
pub async fn c31_the_doctor_examines_the_server(harness: &dyn Harness) {
    let findings = client(harness).await.admin().doctor().await.expect("an answer");
    assert!(!findings.is_empty(), "a doctor is to look at something");
    for finding in findings {
        let is_good = finding.health == Health::Good;
        let told = !finding.check.is_empty() && !finding.seen.is_empty();
        assert!(told, "a finding is to say what was looked at and what was seen: {finding:?}");
        let has_none = finding.remedy.is_none();
        assert_eq!(has_none, is_good, "what is not well is to have a remedy: {finding:?}");
        let shown = finding.to_string();
        assert!(shown.contains(finding.check), "a finding is to name its check: {shown}");
    }
}
