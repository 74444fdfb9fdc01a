//! Where a lock lives on the server.
//!
//! The lock key is the name, so that a client in another language can take the same key
//! with `SET … NX PX`. Only `%`, `{` and `}` are percent-encoded. The companions of a key are
//! `{key}:fence` and so on: every companion starts with a brace, and no lock key does, so that they never
//! meet. The braces also make Redis Cluster put the companions into the slot of the key itself.

use lock_core::{LockName, OwnerId};

/// The keys of one lock.
pub(crate) struct Keys {
    lock: String,
}

impl Keys {
    pub(crate) fn new(name: &LockName) -> Self {
        // C29: the plain name, which clients in other languages take as well.
        Self { lock: encode(name.as_str()) }
    }

    pub(crate) fn lock(&self) -> String {
        self.lock.clone()
    }

    pub(crate) fn waiters(&self) -> String {
        self.companion("waiters")
    }

    /// The keys that a release works on.
    pub(crate) fn granting(&self) -> Vec<String> {
        vec![self.lock(), self.companion("fence"), self.companion("queue"), self.waiters()]
    }

    /// The keys that an acquisition of `owner` works on.
    pub(crate) fn claiming(&self, owner: OwnerId) -> Vec<String> {
        let mut keys = self.granting();
        keys.push(self.companion(&format!("withdrawn:{}", owner.expose())));
        keys
    }

    fn companion(&self, what: &str) -> String {
        format!("{{{}}}:{what}", self.lock)
    }
}

/// The key under which a fence keeps the greatest token that it has seen.
pub(crate) fn mark(resource: &str) -> String {
    format!("{{{}}}:mark", encode(resource))
}

/// A glob that matches the counters of all locks whose names start with `start`.
pub(crate) fn counters(start: &str) -> String {
    let mut glob = String::from("{");
    for character in encode(start).chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob + "*}:fence"
}

/// The name of the lock whose counter is `key`.
pub(crate) fn name_of_counter(key: &str) -> Option<LockName> {
    let lock = key.strip_prefix('{')?.strip_suffix("}:fence")?;
    LockName::new(decode(lock)).ok()
}

fn encode(name: &str) -> String {
    // C2: injective, and every character of a name is data.
    let mut key = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '%' => key.push_str("%25"),
            '{' => key.push_str("%7B"),
            '}' => key.push_str("%7D"),
            plain => key.push(plain),
        }
    }
    key
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
        let owner = OwnerId::random();
        let keys = names.map(|text| Keys::new(&name(text)).claiming(owner));
        let distinct: HashSet<&String> = keys.iter().flatten().collect();
        assert_eq!(distinct.len(), names.len() * 5);
    }

    #[test]
    fn c02_a_counter_tells_its_name() {
        for text in ["a", "a:fence", "{a}:fence", "%7B", "%257B", "*?[x]", "ü"] {
            let counter = Keys::new(&name(text)).companion("fence");
            assert_eq!(name_of_counter(&counter), Some(name(text)), "{text}");
        }
        assert_eq!(name_of_counter("{}:fence"), None);
    }

    #[test]
    fn c29_a_plain_name_is_its_own_key() {
        assert_eq!(Keys::new(&name("stock:42 ü")).lock(), "stock:42 ü");
    }

    #[test]
    fn a_glob_takes_names_as_data() {
        assert_eq!(counters("a*[b]{"), "{a\\*\\[b\\]%7B*}:fence");
    }
}
