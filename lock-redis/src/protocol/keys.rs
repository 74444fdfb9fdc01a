//! The keys of a lock on the server.
//!
//! The lock key is the name, so that a client in another language can take the same key with `SET … NX PX`. Only `%`,
//! `{` and `}` are percent-encoded. The companions of a key are `{key}:fence` and so on. Every companion starts with
//! a brace, and no lock key does, so they never collide. The braces also make Redis Cluster put the companions into
//! the slot of the key itself.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use lock_core::{LockName, Occurrence};
use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};

/// Companion that lists the occurrences of a lock's recorded runs.
pub(crate) const RUNS: &str = "runs";

/// The keys of one lock.
pub(crate) struct Keys<'a> {
    lock: Cow<'a, str>,
}

/// One key of a lock. It is written directly into a request.
#[derive(Clone, Copy)]
pub(crate) enum Key<'a> {
    Lock(&'a str),
    /// The companion with this name, of a lock.
    Companion(&'a str, &'static str),
    /// The mark of a withdrawn claim: the lock, and the whole owner id.
    Withdrawn(&'a str, &'a str),
    /// The record of a run: the lock, and the occurrence.
    Run(&'a str, &'a str),
}

impl<'a> Keys<'a> {
    pub(crate) fn new(name: &'a LockName) -> Self {
        // C29: the plain name, as clients in other languages use it.
        Self { lock: encode(name.as_str()) }
    }

    pub(crate) fn lock(&self) -> Key<'_> {
        Key::Lock(&self.lock)
    }

    pub(crate) fn waiters(&self) -> Key<'_> {
        self.companion("waiters")
    }

    /// Returns the keys of a release.
    pub(crate) fn granting(&self) -> [Key<'_>; 4] {
        [self.lock(), self.companion("fence"), self.companion("queue"), self.waiters()]
    }

    /// Returns the keys of a release, and a last one that never exists. While a slot of a cluster moves, a script
    /// must not find a key missing that it has just deleted. A server refuses the whole script if a key is missing
    /// from the start.
    pub(crate) fn passing_on(&self) -> [Key<'_>; 5] {
        let [lock, fence, queue, waiters] = self.granting();
        [lock, fence, queue, waiters, self.companion("nothing")]
    }

    /// Returns the keys of an acquisition by `owner`, written in full.
    pub(crate) fn claiming<'b>(&'b self, owner: &'b str) -> [Key<'b>; 5] {
        let [lock, fence, queue, waiters] = self.granting();
        [lock, fence, queue, waiters, Key::Withdrawn(&self.lock, owner)]
    }

    /// Returns the key of a run. The occurrence is last, and is data.
    pub(crate) fn run<'b>(&'b self, occurrence: &'b Occurrence) -> Key<'b> {
        Key::Run(&self.lock, occurrence.as_str())
    }

    /// Returns the channels of the events of the lock's key, and of its queue (C44).
    pub(crate) fn events(&self, database: i64) -> [String; 2] {
        let channel = |key: Key<'_>| format!("__keyspace@{database}__:{key}");
        [self.lock(), self.companion("queue")].map(channel)
    }

    pub(crate) fn companion(&self, what: &'static str) -> Key<'_> {
        Key::Companion(&self.lock, what)
    }
}

impl<'a> Key<'a> {
    /// Returns its parts.
    fn parts(self) -> [&'a str; 5] {
        match self {
            Self::Lock(lock) => [lock, "", "", "", ""],
            Self::Companion(lock, what) => ["{", lock, "}:", what, ""],
            Self::Withdrawn(lock, owner) => ["{", lock, "}:", "withdrawn:", owner],
            Self::Run(lock, occurrence) => ["{", lock, "}:", "run:", occurrence],
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().iter().try_for_each(|part| f.write_str(part))
    }
}

impl ToRedisArgs for Key<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut argument = out.writer_for_next_arg();
        for part in self.parts() {
            // A write to memory does not fail.
            let _ = argument.write_all(part.as_bytes());
        }
    }
}

impl ToSingleRedisArg for Key<'_> {}

/// Returns the key in which a fence keeps the greatest token that it has seen.
pub(crate) fn mark(resource: &str) -> String {
    format!("{{{}}}:mark", encode(resource))
}

/// Returns a key behind `prefix` that nothing else uses, for trials.
pub(crate) fn trial(prefix: &str) -> String {
    format!("{{{}}}:trial", encode(prefix))
}

/// Returns a glob that matches the keys of all held locks whose names start with `start`, and keys of others.
pub(crate) fn locks(start: &str) -> String {
    // The companions of locks start with a brace.
    if start.is_empty() { "[^{]*".to_owned() } else { format!("{}*", literal(start)) }
}

/// Returns a part of a glob that matches only the start of a key for `text`.
fn literal(text: &str) -> String {
    let mut glob = String::new();
    for character in encode(text).chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

/// Returns the name of the lock with this key.
pub(crate) fn name_of(key: &str) -> Option<LockName> {
    let name = LockName::new(decode(key)).ok()?;
    (encode(name.as_str()) == key).then_some(name)
}

/// Returns the key of the lock whose events are on this channel.
pub(crate) fn lock_of_events(channel: &str) -> Option<&str> {
    let (_, key) = channel.split_once("__:")?;
    let queue_of = key.strip_prefix('{').and_then(|key| key.strip_suffix("}:queue"));
    Some(queue_of.unwrap_or(key))
}

fn encode(name: &str) -> Cow<'_, str> {
    // C2: injective, and every character of a name is data.
    if !name.contains(['%', '{', '}']) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D"))
}

fn decode(name: &str) -> String {
    name.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a name")
    }

    #[test]
    fn c02_no_lock_meets_anothers_keys() {
        let names = ["a", "a:fence", "{a}:fence", "{a}", "a/b", "a}b", "}", "{}", "%7B", "{", "*"];
        let keys = names
            .map(|text| Keys::new(&name(text)).claiming("an owner").map(|key| key.to_string()));
        let distinct: HashSet<&String> = keys.iter().flatten().collect();
        assert_eq!(distinct.len(), names.len() * 5);
    }

    #[test]
    fn c42_no_run_meets_another_or_a_key_of_a_lock() {
        let texts = ["a", "a:run:a", "{a}:run:a", "{a}", "}", "a}:run:b", "%7B", "b"];
        let occurrence = |text: &str| Occurrence::new(text).expect("an occurrence");
        let runs = texts.iter().flat_map(|lock| {
            let (name, of) = (name(lock), texts.map(occurrence));
            of.map(|occurrence| Keys::new(&name).run(&occurrence).to_string())
        });
        let locks =
            texts.map(|text| Keys::new(&name(text)).claiming("x").map(|key| key.to_string()));
        let distinct: HashSet<String> = runs.chain(locks.into_iter().flatten()).collect();
        assert_eq!(distinct.len(), texts.len() * (texts.len() + 5));
    }

    #[test]
    fn c02_a_key_tells_its_name() {
        for text in ["a", "a:fence", "{a}:fence", "%7B", "%257B", "*?[x]", "ü"] {
            assert_eq!(name_of(&Keys::new(&name(text)).lock().to_string()), Some(name(text)));
        }
        for foreign in ["", "{}:fence", "{a}:fence", "a%", "%41"] {
            assert_eq!(name_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn c44_a_channel_tells_its_lock() {
        for text in ["a", "a:queue", "{a}:queue", "__:", "{", "}", "ü"] {
            let (name, other) = (name(text), name("b"));
            let keys = Keys::new(&name);
            for channel in keys.events(15) {
                assert_eq!(lock_of_events(&channel), Some(&*keys.lock().to_string()));
                assert!(!Keys::new(&other).events(15).contains(&channel), "{channel}");
            }
        }
        assert_eq!(lock_of_events("leasehold-1"), None);
    }

    #[test]
    fn c29_a_plain_name_is_its_own_key() {
        assert_eq!(Keys::new(&name("stock:42 ü")).lock().to_string(), "stock:42 ü");
    }

    #[test]
    fn a_glob_takes_names_as_data() {
        assert_eq!(locks("a*[b]{"), "a\\*\\[b\\]%7B*");
    }

    /// Two names share no key, and a key of a lock tells its name.
    #[test]
    fn fuzz_keys() {
        const WORDS: &[&str] =
            &["a", "{", "}", "%", "%7B", "%25", ":fence", ":queue", "}:run:", "__:", ":", "*"];
        lock_fuzz::check(|(one, other, any)| {
            let [one, other, any] = [one, other, any].map(|parts| lock_fuzz::text(WORDS, parts));
            let _ = (name_of(&any), lock_of_events(&any), literal(&any));
            let (Ok(one), Ok(other)) = (LockName::new(&one), LockName::new(&other)) else { return };
            let keys = |name: &LockName| Keys::new(name).claiming("x").map(|key| key.to_string());
            assert_eq!(name_of(&keys(&one)[0]), Some(one.clone()));
            assert_eq!(lock_of_events(&Keys::new(&one).events(0)[1]), Some(&*keys(&one)[0]));
            let meets = keys(&one).iter().any(|key| keys(&other).contains(key));
            assert_eq!(meets, one == other, "{one:?} {other:?}");
            let Ok(occurrence) = Occurrence::new(&any) else { return };
            let run = Keys::new(&one).run(&occurrence).to_string();
            assert!(!keys(&one).contains(&run) && !keys(&other).contains(&run), "{run}");
        });
    }
}
