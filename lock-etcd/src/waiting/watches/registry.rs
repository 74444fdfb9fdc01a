//! Watches of one client, and the messages that the stream has to send for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use etcd_client::{Event, EventType, KeyValue, WatchFilterType, WatchOptions, WatchResponse};

#[derive(Default)]
pub(super) struct Registry {
    last_id: i64,
    pub(super) watched: HashMap<i64, Watched>,
    pub(super) requests: VecDeque<Request>,
}

/// A watch, and the events of its keys.
pub(super) struct Watched {
    target: Target,
    sent: bool,
    /// Number of its openings.
    pub(super) opened: u64,
    pub(super) gone: bool,
    /// True if an event came since the watcher looked.
    pub(super) is_new: bool,
    pub(super) watcher: Option<Waker>,
}

/// Target of a watch in the store.
#[derive(Clone)]
pub(super) enum Target {
    /// Deletions of a key after this revision: a renewal that moves it to another lease is no deletion. The stream of
    /// a lagging member may report earlier ones, of an earlier claim with the same key.
    Key(Arc<[u8]>, i64),
    /// All changes of a key.
    KeyChanges(Arc<[u8]>),
    /// Deletions of the keys with this start.
    DeletionsStartingWith(Arc<[u8]>),
    /// All changes of the keys with this start.
    KeysStartingWith(Arc<[u8]>),
}

/// Message for the stream.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Request {
    Open(i64),
    Cancel(i64),
}

/// Returns the revision in which a key was deleted.
fn deletion(event: &Event) -> Option<i64> {
    let key = event.kv().filter(|_| event.event_type() == EventType::Delete);
    key.map(KeyValue::mod_revision)
}

impl Target {
    pub(super) fn key(&self) -> &Arc<[u8]> {
        match self {
            Self::Key(key, _)
            | Self::KeyChanges(key)
            | Self::DeletionsStartingWith(key)
            | Self::KeysStartingWith(key) => key,
        }
    }

    /// Returns true if a deletion in this revision removes the target.
    fn is_gone_by(&self, deletion: i64) -> bool {
        match self {
            Self::Key(_, since) => deletion > *since,
            _ => true,
        }
    }

    pub(super) fn options(&self, id: i64) -> WatchOptions {
        let options = WatchOptions::new().with_watch_id(id);
        match self {
            Self::Key(..) => options.with_filters([WatchFilterType::NoPut]),
            Self::KeyChanges(_) => options,
            Self::DeletionsStartingWith(_) => {
                options.with_prefix().with_filters([WatchFilterType::NoPut])
            }
            Self::KeysStartingWith(_) => options.with_prefix(),
        }
    }
}

impl Registry {
    pub(super) fn open(&mut self, target: Target) -> i64 {
        self.last_id += 1;
        let watched =
            Watched { target, sent: false, opened: 0, gone: false, is_new: false, watcher: None };
        self.watched.insert(self.last_id, watched);
        self.requests.push_back(Request::Open(self.last_id));
        self.last_id
    }

    pub(super) fn close(&mut self, id: i64) {
        if self.watched.remove(&id).is_some_and(|watched| watched.sent) {
            self.requests.push_back(Request::Cancel(id));
        }
    }

    /// Plans to open all watches on a new stream.
    pub(super) fn reopen(&mut self) {
        self.requests = self.watched.keys().copied().map(Request::Open).collect();
        self.watched.values_mut().for_each(|watched| watched.sent = false);
    }

    /// Returns the next message, with the target of a watch that it opens.
    pub(super) fn next(&mut self) -> Option<(Request, Option<Target>)> {
        loop {
            let request = *self.requests.front()?;
            match request {
                Request::Cancel(_) => return Some((request, None)),
                Request::Open(id) => match self.watched.get(&id) {
                    Some(watched) => return Some((request, Some(watched.target.clone()))),
                    // The watch was closed before it was opened.
                    None => self.requests.pop_front(),
                },
            };
        }
    }

    /// Returns the first watch to open; on a new stream there is nothing to cancel.
    pub(super) fn first(&mut self) -> Option<(i64, Target)> {
        loop {
            match self.next()? {
                (Request::Open(id), Some(target)) => return Some((id, target)),
                _ => drop(self.requests.pop_front()),
            }
        }
    }

    /// Notes a sent request. A watch that was closed meanwhile must be cancelled.
    pub(super) fn sent(&mut self, request: Request) {
        if self.requests.front() == Some(&request) {
            self.requests.pop_front();
        }
        if let Request::Open(id) = request {
            match self.watched.get_mut(&id) {
                Some(watched) => watched.sent = true,
                None => self.requests.push_back(Request::Cancel(id)),
            }
        }
    }

    /// Returns true if the server ends a watch that we have not closed. A refusal at the opening may have no number
    /// (3.5).
    pub(super) fn is_refusal(&self, response: &WatchResponse) -> bool {
        let id = response.watch_id();
        response.canceled() && (id < 0 || self.watched.contains_key(&id))
    }

    pub(super) fn read(&mut self, response: &WatchResponse) {
        let Some(watched) = self.watched.get_mut(&response.watch_id()) else { return };
        let mut deletions = response.events().iter().filter_map(deletion);
        let gone = deletions.any(|revision| watched.target.is_gone_by(revision));
        let opened = response.created();
        if opened || !response.events().is_empty() {
            watched.gone |= gone;
            watched.opened += u64::from(opened);
            watched.is_new = true;
            watched.watcher.take().into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C27, C8: the stream of a lagging member reports the deletion of an earlier claim with the same key.
    #[test]
    fn c27_a_deletion_before_the_claim_was_made_is_none_of_it() {
        let target = Target::Key(b"a".as_slice().into(), 7);
        assert!(!target.is_gone_by(6));
        assert!(target.is_gone_by(8));
    }
}
