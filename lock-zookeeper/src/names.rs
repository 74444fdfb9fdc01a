//! Paths of locks in the tree.
//!
//! ```text
//!   {root}/floor/{micros}                            the floor of tokens
//!   {root}/locks/{name}/{owner}-{sequence}           a claim
//!   {root}/runs/{name}/{occurrence}.{token}.{until}  the record of a run, until this time in milliseconds
//!   {root}/withdrawn/{owner}                         the mark of a claim that was withdrawn
//! ```

use lock_core::{FencingToken, LockName, Occurrence, OwnerId};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters of names that are percent-encoded: all but ASCII letters, digits, `-`, `_` and `:`. ZooKeeper refuses
/// the nodes `.` and `..`, and characters beyond the first plane.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b':');

/// The node above all nodes of the locks.
#[derive(Clone, Debug)]
pub(crate) struct Root(String);

impl Root {
    /// Creates a root from its path, with or without the first slash. The error says why the path cannot be one.
    pub(crate) fn new(root: &str) -> Result<Self, &'static str> {
        let root = root.trim_matches('/');
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_:.".contains(c);
        for node in root.split('/') {
            if node.is_empty() || matches!(node, "." | ".." | "zookeeper") {
                return Err("a node of the root is empty, `.`, `..` or `zookeeper`");
            }
            if !node.chars().all(is_good) {
                return Err("the root may hold ASCII letters and digits, and / - _ : .");
            }
        }
        Ok(Self(format!("/{root}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn floor(&self) -> String {
        format!("{}/floor", self.0)
    }

    pub(crate) fn locks(&self) -> String {
        format!("{}/locks", self.0)
    }

    pub(crate) fn marks(&self) -> String {
        format!("{}/withdrawn", self.0)
    }

    /// Returns the parent of all claims on a lock.
    pub(crate) fn lock(&self, name: &LockName) -> String {
        // C2: injective; a name is data.
        format!("{}/{}", self.locks(), utf8_percent_encode(name.as_str(), ENCODED))
    }

    /// Returns the parent of the records of all locks' runs.
    pub(crate) fn records(&self) -> String {
        format!("{}/runs", self.0)
    }

    /// Returns the parent of the records of a lock's runs.
    pub(crate) fn runs(&self, name: &LockName) -> String {
        format!("{}/{}", self.records(), utf8_percent_encode(name.as_str(), ENCODED))
    }

    /// Returns the mark of the withdrawn claim of `owner`.
    pub(crate) fn mark(&self, owner: OwnerId) -> String {
        format!("{}/{}", self.marks(), owner.expose())
    }

    /// Returns the lock of a child of [`locks`](Self::locks); `None` if it is not a node of ours.
    pub(crate) fn read(&self, child: &str) -> Option<LockName> {
        let name = LockName::new(percent_decode_str(child).decode_utf8().ok()?).ok()?;
        (self.lock(&name).rsplit('/').next() == Some(child)).then_some(name)
    }
}

/// The record of a run. Its node's name says everything, so that one request reads all records of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) occurrence: Occurrence,
    pub(crate) token: FencingToken,
    /// End of the record: the server's time in milliseconds.
    pub(crate) until: i64,
}

impl Run {
    /// Returns the name of its node.
    pub(crate) fn child(&self) -> String {
        let Self { occurrence, token, until } = self;
        format!("{}.{token}.{until}", utf8_percent_encode(occurrence.as_str(), ENCODED))
    }

    /// Reads the name of a node; `None` if it is not one of ours.
    pub(crate) fn read(child: &str) -> Option<Self> {
        let mut parts = child.split('.');
        let occurrence = percent_decode_str(parts.next()?).decode_utf8().ok()?;
        let occurrence = Occurrence::new(occurrence).ok()?;
        let (token, until) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let run = Self { occurrence, token, until };
        (run.child() == child).then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c02_each_name_has_a_node_of_its_own() {
        let root = Root::new("p/q").expect("a root");
        let names =
            ["a", "A", "a/b", "a%2Fb", ".", "..", "%", "%25", "/", "//", "🔒", "a b", "a:b"];
        let mut nodes = Vec::new();
        for name in names {
            let name = LockName::new(name).expect("a name");
            let path = root.lock(&name);
            let node = path.strip_prefix("/p/q/locks/").expect("below the root").to_owned();
            assert!(node.is_ascii() && !node.contains(['/', '.']), "{node}");
            assert_eq!(root.read(&node), Some(name));
            nodes.push(node);
        }
        nodes.sort();
        nodes.dedup();
        assert_eq!(nodes.len(), names.len());
        assert_eq!(root.read("a.b"), None, "it is not how the name a.b is written");
    }

    #[test]
    fn c42_the_record_of_a_run_is_read_as_it_was_written() {
        let token = FencingToken::new(7).expect("a token");
        for occurrence in ["2026-11-21", "a.b", "a/b", "%2E", ".", "🔒", "a.1.2"] {
            let occurrence = Occurrence::new(occurrence).expect("an occurrence");
            let run = Run { occurrence, token, until: 1_795_251_431_457 };
            assert_eq!(Run::read(&run.child()), Some(run));
        }
        for foreign in ["", "a", "a.7", "a.0.1", "a.7.x", "a.7.1.2", "a.07.1", "a b.7.1", ".7.1"] {
            assert_eq!(Run::read(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_root_is_checked() {
        assert_eq!(Root::new("/a/b/").expect("good").as_str(), "/a/b");
        for bad in ["", "/", "a//b", "a/..", "zookeeper", "a b", "ü"] {
            assert!(Root::new(bad).is_err(), "{bad}");
        }
    }

    /// Two names share no node, a node shows its name, and each root is good or refused.
    #[test]
    fn fuzz_names() {
        const WORDS: &[&str] = &["a", "/", "%", "%2F", "%25", ".", "..", "zookeeper", "-", "ü"];
        lock_fuzz::check(|(one, other, any)| {
            let [one, other, any] = [one, other, any].map(|parts| lock_fuzz::text(WORDS, parts));
            let (_, root) = (Root::new(&any), Root::new("p").expect("a root"));
            if let Some(name) = root.read(&any) {
                assert_eq!(root.lock(&name), format!("/p/locks/{any}"));
            }
            if let Some(run) = Run::read(&any) {
                assert_eq!(run.child(), any);
            }
            let (Ok(one), Ok(other)) = (LockName::new(&one), LockName::new(&other)) else { return };
            let [node, others] = [&one, &other].map(|name| root.lock(name));
            assert_eq!(node == others, one == other, "{one:?} {other:?}");
            let child = node.strip_prefix("/p/locks/").expect("below the root");
            assert!(!child.contains(['/', '.']), "{child}");
            assert_eq!(root.read(child), Some(one));
        });
    }
}
