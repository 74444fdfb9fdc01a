//! The keys of a lock in the store.
//!
//! A claim is one key, `{root}/locks/{name}/s-{seat}` ([`Seats`](crate::layout::seats::Seats)). The key that was
//! created first is the holder's, the others are the queue. `/` and `%` are percent-encoded in names. So the claims
//! on a name are exactly the keys that start with `{root}/locks/{name}/`, and `a` never includes `a/b`. The mark of a
//! withdrawn claim is `{root}/withdrawn/{owner}`, that of a fence `{root}/fences/{resource}`, and the record of a run
//! `{root}/runs/{name}/{occurrence}`, encoded in the same way. `{root}/floor` is the
//! [floor of tokens](crate::protocol::floor).

use lock_core::{LockName, Occurrence, OwnerId};
use percent_encoding::percent_decode_str;

/// The parts of our keys that follow the root.
const OURS: [&str; 5] = ["locks", "withdrawn", "fences", "runs", "floor"];

/// Text before the seat of a claim.
const SEAT: &str = "s-";

/// The root of a key space: clients with the same root exclude each other, and all their keys are below it.
#[derive(Clone, Debug)]
pub(crate) struct Root(String);

impl Root {
    /// Checks a root. The error tells why its keys could collide with those of another root.
    pub(crate) fn new(root: &str) -> Result<Self, &'static str> {
        let root = root.trim_matches('/');
        let mut segments = root.split('/');
        if root.is_empty() || segments.clone().any(str::is_empty) {
            return Err("the root has an empty part");
        }
        if root.contains('%') || root.chars().any(char::is_control) {
            return Err("the root may not hold % or control characters");
        }
        if segments.any(|segment| OURS.contains(&segment)) {
            return Err(
                "no part of the root may be called locks, withdrawn, fences, runs or floor",
            );
        }
        Ok(Self(root.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the start of the keys of all claims on `name`, and of no others.
    pub(crate) fn claims(&self, name: &LockName) -> String {
        format!("{}/", self.starting_with(name.as_str()))
    }

    /// Returns the key of the claim with this seat.
    pub(crate) fn claim(&self, name: &LockName, seat: &str) -> String {
        self.claims(name) + SEAT + seat
    }

    /// Returns the key of the mark that the claim of `owner` was withdrawn.
    pub(crate) fn withdrawn(&self, owner: OwnerId) -> String {
        format!("{}/withdrawn/{}", self.0, owner.expose())
    }

    /// Returns the start of the keys of all claims on locks whose names start with `start`.
    pub(crate) fn starting_with(&self, start: &str) -> String {
        format!("{}/locks/{}", self.0, encode(start))
    }

    /// Returns the start of the keys of all claims.
    pub(crate) fn all_claims(&self) -> String {
        self.starting_with("")
    }

    /// Returns the key of the floor of tokens.
    pub(crate) fn floor(&self) -> String {
        format!("{}/floor", self.0)
    }

    /// Returns the key in which a fence keeps the greatest token that it has seen.
    pub(crate) fn mark(&self, resource: &str) -> String {
        format!("{}/fences/{}", self.0, encode(resource))
    }

    /// Returns the key of the record of a run.
    pub(crate) fn run(&self, name: &LockName, occurrence: &Occurrence) -> String {
        self.runs(name) + &encode(occurrence.as_str())
    }

    /// Returns the start of the keys of all runs of `name`, and of no others.
    pub(crate) fn runs(&self, name: &LockName) -> String {
        format!("{}/runs/{}/", self.0, encode(name.as_str()))
    }

    /// Returns the occurrence of a run's key.
    pub(crate) fn occurrence(&self, name: &LockName, key: &[u8]) -> Option<Occurrence> {
        let occurrence = str::from_utf8(key).ok()?.strip_prefix(&self.runs(name))?;
        Occurrence::new(percent_decode_str(occurrence).decode_utf8().ok()?).ok()
    }

    /// Returns the lock of a claim's key.
    pub(crate) fn read(&self, key: &[u8]) -> Option<LockName> {
        let key = str::from_utf8(key).ok()?.strip_prefix(&self.0)?.strip_prefix("/locks/")?;
        let (name, _) = key.split_once('/')?;
        LockName::new(percent_decode_str(name).decode_utf8().ok()?).ok()
    }
}

fn encode(name: &str) -> String {
    // C2: injective; every character of a name is data.
    name.replace('%', "%25").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a name")
    }

    fn root() -> Root {
        Root::new("p").expect("a root")
    }

    #[test]
    fn c02_no_lock_sees_anothers_claims() {
        let names = ["a", "a/b", "a/", "/a", "/", "%2F", "a%2Fb", "%", "%25", "*", "ü", "a b"];
        for one in names {
            for other in names {
                let key = root().claim(&name(other), &OwnerId::random().expose());
                assert_eq!(
                    key.starts_with(&root().claims(&name(one))),
                    one == other,
                    "{one} {other}"
                );
            }
        }
    }

    #[test]
    fn c42_no_run_meets_another() {
        let texts = ["a", "a/b", "b/a", "/", "%2F", "%", "b", "a/", "/b"];
        let mut keys = std::collections::HashSet::new();
        for lock in texts {
            for occurrence in texts {
                let occurrence = Occurrence::new(occurrence).expect("an occurrence");
                keys.insert(root().run(&name(lock), &occurrence));
            }
        }
        assert_eq!(keys.len(), texts.len() * texts.len());
    }

    #[test]
    fn c02_a_key_tells_its_name() {
        for text in ["a", "a/b", "%2F", "%252F", "ü", "a b/%c"] {
            let key = root().claim(&name(text), &OwnerId::random().expose());
            assert_eq!(root().read(key.as_bytes()), Some(name(text)), "{text}");
        }
        assert_eq!(root().read(b"p/locks/a/x"), Some(name("a")));
        assert_eq!(root().read(b"p/locks/a"), None);
        assert_eq!(root().read(b"q/locks/a/0123456789abcdef0123456789abcdef"), None);
    }

    #[test]
    fn c02_a_start_of_a_name_is_a_start_of_its_keys() {
        let key = root().claim(&name("a/b%c"), &OwnerId::random().expose());
        for start in ["", "a", "a/", "a/b", "a/b%", "a/b%c"] {
            assert!(key.starts_with(&root().starting_with(start)), "{start}");
        }
    }

    #[test]
    fn roots_whose_keys_could_meet_are_refused() {
        for good in ["a", "a/b", "/a/", "lock"] {
            assert!(Root::new(good).is_ok(), "{good}");
        }
        for bad in
            ["", "/", "a//b", "a%", "a\n", "a/locks/b", "withdrawn", "fences", "runs", "floor"]
        {
            assert!(Root::new(bad).is_err(), "{bad}");
        }
    }

    /// Two names share no key, a key tells its name, and roots are good or refused.
    #[test]
    fn fuzz_keys() {
        const WORDS: &[&str] =
            &["a", "/", "%", "%2F", "%25", "%ff", "p/locks/", "p/runs/a/", "s-", "*"];
        lock_fuzz::check(|(one, other, any)| {
            let [one, other, any] = [one, other, any].map(|parts| lock_fuzz::text(WORDS, parts));
            let _ = (root().read(any.as_bytes()), Root::new(&any).map(|root| root.floor()));
            let (Ok(one), Ok(other)) = (LockName::new(&one), LockName::new(&other)) else { return };
            let key = root().claim(&one, "x");
            assert_eq!(root().read(key.as_bytes()), Some(one.clone()));
            assert_eq!(key.starts_with(&root().claims(&other)), one == other, "{one:?} {other:?}");
            let Ok(occurrence) = Occurrence::new(&any) else { return };
            let run = root().run(&one, &occurrence);
            assert_eq!(root().occurrence(&one, run.as_bytes()), Some(occurrence));
            assert_eq!(run.starts_with(&root().runs(&other)), one == other, "{one:?} {other:?}");
        });
    }
}
