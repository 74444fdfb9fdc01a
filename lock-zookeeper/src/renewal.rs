//! Extends holds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{Extension, Renewal};
use lock_core::{BackendError, Clock, LockName, OwnerId, SystemClock};
use zookeeper_client::{CreateMode, Error, MultiWriteError};

use crate::claims::Node;
use crate::error::overtaken;
use crate::places::Place;
use crate::queue::Entry;
use crate::session::Session;
use crate::store::Store;
use crate::written::{Token, Written};

/// Number of holds that share a request.
const BATCH: usize = 100;

/// A hold that is to be extended, with its node.
struct Extending<'a> {
    renewal: &'a Renewal,
    /// Its index among the requested renewals.
    at: usize,
    path: String,
    session: Arc<Place>,
}

type ExtensionResult = Result<Extension, BackendError>;

impl Store {
    pub(crate) async fn extend(self: &Arc<Self>, renewals: &[Renewal]) -> Vec<ExtensionResult> {
        self.ensure_kept();
        let mut answers = vec![Ok(Extension::Lost); renewals.len()];
        let (mut batched, mut others) = (Vec::new(), Vec::new());
        for (at, renewal) in renewals.iter().enumerate() {
            match self.on_its_session(renewal, at) {
                Some(extending) => batched.push(extending),
                None => others.push((at, renewal)),
            }
        }
        let batches = self.extend_batches(batched);
        let others = others
            .into_iter()
            .map(async |(at, renewal)| (at, self.extend_elsewhere(renewal).await));
        let (batches, others) = tokio::join!(batches, join_all(others));
        for (at, answer) in batches.into_iter().chain(others) {
            answers[at] = answer;
        }
        answers
    }

    /// Returns the node of a hold whose session is long enough. The hold is extended from now on, since the
    /// server may extend it.
    fn on_its_session<'a>(&self, renewal: &'a Renewal, at: usize) -> Option<Extending<'a>> {
        let ttl = renewal.ttl.as_duration();
        let mut claims = self.claims.lock();
        let own = claims.get_mut(&renewal.owner)?;
        let (node, session) = (own.node.clone()?, own.sessions.first()?.clone());
        let is_here = own.is_held && !own.is_over && node.token == Some(renewal.token);
        if !is_here || session.longest_ttl() < ttl || session.is_over() {
            return None;
        }
        own.last_until(SystemClock.now().after(ttl));
        Some(Extending { renewal, at, path: node.path, session })
    }

    async fn extend_batches(&self, mut holds: Vec<Extending<'_>>) -> Vec<(usize, ExtensionResult)> {
        let number = |hold: &Extending<'_>| hold.session.session_number();
        holds.sort_by_key(number);
        let same = |one: &Extending<'_>, other: &Extending<'_>| number(one) == number(other);
        let batches = holds.chunk_by(same).flat_map(|holds| holds.chunks(BATCH));
        let answers = join_all(batches.map(|batch| self.extend_batch(batch))).await;
        answers.into_iter().flatten().collect()
    }

    /// Extends holds on one session, in one request. If one of them is lost, each is checked alone.
    async fn extend_batch(&self, batch: &[Extending<'_>]) -> Vec<(usize, ExtensionResult)> {
        let Some(Extending { session, .. }) = batch.first() else { return Vec::new() };
        let paths = batch.iter().map(|hold| hold.path.as_str());
        match (check(session, paths).await, batch) {
            (Err(MultiWriteError::OperationFailed { .. }), [_, _, ..]) => {
                let alone = batch.iter().map(async |hold| {
                    (hold.at, self.extended(hold, check(session, [hold.path.as_str()]).await))
                });
                join_all(alone).await
            }
            (checked, _) => {
                let answer = |hold: &Extending<'_>| (hold.at, self.extended(hold, checked.clone()));
                batch.iter().map(answer).collect()
            }
        }
    }

    /// Returns the answer to a check of the node of this hold.
    fn extended(
        &self,
        hold: &Extending<'_>,
        checked: Result<(), MultiWriteError>,
    ) -> ExtensionResult {
        let owner = hold.renewal.owner;
        match checked {
            Ok(()) => Ok(self.lasts(hold.renewal)),
            Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => {
                if self.claims.moves_from(owner, &hold.path) {
                    return Err(overtaken("the hold moves to another session"));
                }
                self.claims.forget(owner);
                Ok(Extension::Lost)
            }
            Err(error) => Err(hold.session.failed(error)),
        }
    }

    fn lasts(&self, renewal: &Renewal) -> Extension {
        let ttl = renewal.ttl.as_duration();
        if let Some(own) = self.claims.lock().get_mut(&renewal.owner) {
            own.last_until(SystemClock.now().after(ttl));
        }
        Extension::Extended(ttl)
    }

    /// Extends a hold that another client has created, or whose session is too short: its node moves to another
    /// session.
    async fn extend_elsewhere(&self, renewal: &Renewal) -> ExtensionResult {
        let (owner, ttl) = (renewal.owner, renewal.ttl.as_duration());
        let known = self.claims.held_node(owner).filter(|node| node.token == Some(renewal.token));
        if self.claims.is_over(owner) {
            return Ok(Extension::Lost);
        }
        // C10, C41: an extension shortens no hold. The server has the TTL of a hold that lasts longer.
        let lasts_longer = self.claims.left(owner).is_some_and(|left| left > ttl);
        let (node, lasts) = match known {
            Some(node) if !lasts_longer => (node, ttl),
            _ => match self.held_by(&*self.sessions.common().await?, renewal).await? {
                Some((node, lasts)) => (node, lasts.max(ttl)),
                None => return Ok(Extension::Lost),
            },
        };
        let session = self.sessions.for_ttl(lasts, &self.root.lock(&renewal.name)).await?;
        // C19: from here on the path of the node is unknown, until the answer to the move. If no answer comes, or
        // this future is dropped, the next renewal looks for the node.
        self.claims.asked(&renewal.name, owner, &session, lasts)?;
        let Some(moved) = self.move_to(&session, &node, lasts).await? else {
            return self.gone(&session, renewal).await;
        };
        self.claims.held(owner, &session, moved, lasts)?;
        Ok(Extension::Extended(ttl))
    }

    /// Moves the node of a claim to a session; `None` if it is gone.
    pub(crate) async fn move_to(
        &self,
        session: &Session,
        node: &Node,
        ttl: Duration,
    ) -> Result<Option<Node>, BackendError> {
        let Some(found) = self.find(session, &node.path).await? else { return Ok(None) };
        let since = found.since();
        let Some(written) = found.written else { return Ok(None) };
        let token = node.token.map_or(written.token, Token::Of);
        let text = Written { ttl, token, since, ..written }.text();
        let path = Entry::moved(&node.path);
        let moved = Node { path, version: 0, ..node.clone() };
        let failed = |error| session.failed(error);
        let client = session.client();
        let mut write = client.new_multi_writer();
        write.add_delete(&node.path, None).map_err(failed)?;
        let options = CreateMode::Ephemeral.with_acls(self.acls);
        write.add_create(&moved.path, text.as_bytes(), &options).map_err(failed)?;
        match write.commit().await {
            Ok(_) => Ok(Some(moved)),
            Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => Ok(None),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Returns "lost" if a hold whose node is missing is over. The read may be old. Or an earlier move without an
    /// answer was carried out, and the next try finds its node.
    async fn gone(&self, session: &Session, renewal: &Renewal) -> ExtensionResult {
        if self.held_by(session, renewal).await?.is_some() {
            return Err(overtaken("the hold has moved to another session"));
        }
        self.claims.forget(renewal.owner);
        Ok(Extension::Lost)
    }

    /// Returns the node of a hold whose path this client does not know, and its TTL.
    async fn held_by(
        &self,
        session: &Session,
        renewal: &Renewal,
    ) -> Result<Option<(Node, Duration)>, BackendError> {
        let hold = self.node_of(session, &renewal.name, renewal.owner).await?;
        Ok(hold.filter(|(node, _)| node.token == Some(renewal.token)))
    }

    /// Returns the node of the owner's hold, as the server knows it, and its TTL.
    pub(crate) async fn node_of(
        &self,
        session: &Session,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<Option<(Node, Duration)>, BackendError> {
        let hold = self.hold_of(session, &self.root.lock(name), owner).await?;
        let Some((path, found)) = hold else { return Ok(None) };
        let Some(ttl) = found.written.as_ref().map(|written| written.ttl) else { return Ok(None) };
        Ok(found.into_node(path).map(|node| (node, ttl)))
    }
}

/// Checks that all nodes exist. A majority takes part, so that the answer is not older than the request.
pub(crate) async fn check(
    session: &Session,
    paths: impl IntoIterator<Item = &str>,
) -> Result<(), MultiWriteError> {
    let client = session.client();
    let mut check = client.new_multi_writer();
    for path in paths {
        check.add_check_version(path, -1)?;
    }
    check.commit().await.map(drop)
}
