//! One request for a lock.

use std::sync::Arc;

use lock_core::backend::{Attempt, Claim, Grant, WAITER_LIVENESS, WaiterHandle};
use lock_core::{BackendError, Clock, Moment, Outcome, Slots, SystemClock};
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, MultiWriteResult};

use crate::claims::Node;
use crate::error::{BACKEND, overtaken};
use crate::floor::Floor;
use crate::places::Place;
use crate::queue::{Entry, Queue};
use crate::renewal::check;
use crate::standing::Standing;
use crate::store::Store;
use crate::written::{Token, Written};

/// One request for a lock.
pub(crate) struct Ask<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) claim: &'a Claim,
    pub(crate) session: Arc<Place>,
    pub(crate) lock: String,
    pub(crate) asked: Moment,
}

impl Store {
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        claim: &Claim,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let (owner, ttl, asked) = (claim.owner, claim.ttl.as_duration(), SystemClock.now());
        self.ensure_kept();
        if let Some(mut contention) = waiter.and_then(|_| self.claims.waiting(owner, ttl)) {
            contention.at = Some(self.time(asked));
            return Ok(Attempt::Busy(contention));
        }
        let lock = self.root.lock(&claim.name);
        let session = match self.claims.session(owner) {
            Some(session) => session,
            None => self.sessions.for_ttl(ttl, &lock).await?,
        };
        let ask = Ask { store: self, claim, session, lock, asked };
        // C14: a try reports "busy" of the present. A waiter takes a place, from which it is woken.
        let queue = match waiter {
            Some(_) => self.queue(&ask.session, &ask.lock).await?,
            None => self.fresh_queue(&ask.session, &ask.lock).await?,
        };
        if let Some(at) = queue.place(owner) {
            return ask.found(&queue, at, waiter).await;
        }
        match (ask.standing(&queue, queue.entries().len()).await?, waiter) {
            (Standing::Behind(_) | Standing::Full, None) => {
                let is_untaken = ask.overtakes(&queue).await?;
                ask.busy(&queue, is_untaken).await
            }
            (standing, waiter) => {
                let fits = matches!(standing, Standing::Fits(_));
                // C36: other claims may come in between, and would take slots that are written too early.
                ask.enter(fits && claim.kind.slots() == 0, waiter).await
            }
        }
    }
}

impl Ask<'_> {
    /// Deletes the node of a waiter that has not taken its turn since an earlier try saw it (C28). Then this try is
    /// made again. Otherwise returns true if there is a waiter whose turn has come.
    async fn overtakes(&self, queue: &Queue) -> Result<bool, BackendError> {
        let (store, name) = (self.store, &self.claim.name);
        let all = queue.entries().len();
        let untaken = store.untaken(&self.session, &self.lock, queue, all).await?;
        let now = SystemClock.now();
        let Some(untaken) = untaken else { return Ok(false) };
        if store.sights.are_dead(name, Some(&untaken), now) {
            store.overtake(&self.session, &untaken).await;
            return Err(overtaken("a waiter that has died was before the claim"));
        }
        Ok(true)
    }

    /// Creates the claim's node, as a hold or as a place in the queue.
    async fn enter(
        &self,
        is_held: bool,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        let (node, queue, is_as_made) = self.create(is_held).await?;
        let mut entries = queue.entries().iter().enumerate();
        let Some((at, own)) = entries.find(|(_, entry)| node.path.ends_with(&entry.child)) else {
            return Err(overtaken("the claim was ended"));
        };
        self.leave_unless_in_order(own).await?;
        // C16: an earlier request, whose reply was lost, has also created a node.
        if queue.place(self.claim.owner) != Some(at) {
            self.store.delete(&self.session, &node.path).await?;
            return Err(overtaken("an earlier request of the claim was carried out"));
        }
        let path = node.path.clone();
        let attempt = match is_as_made || at >= queue.front() {
            true => self.stand(&queue, at, node, waiter).await?,
            // C22: others may have been granted since the creation.
            false => self.claim(node).await.map(Attempt::Granted)?,
        };
        if waiter.is_none() && matches!(attempt, Attempt::Busy(_)) {
            self.store.delete(&self.session, &path).await?;
            self.store.claims.forget(self.claim.owner);
        }
        Ok(attempt)
    }

    /// Ends our claim if the server cannot order it any more (S3); begins the sequence anew if nobody has a claim.
    async fn leave_unless_in_order(&self, own: &Entry) -> Result<(), BackendError> {
        if !own.is_beyond_order() {
            return Ok(());
        }
        self.store.delete(&self.session, &format!("{}/{}", self.lock, own.child)).await?;
        self.store.claims.forget(self.claim.owner);
        // The server removes no node that has others below it, such as the holder's.
        let _ = self.store.delete(&self.session, &self.lock).await;
        let source = "it begins anew once nobody has a claim on the lock";
        let context = "the sequence of the lock's claims is used up";
        Err(BackendError::transient(BACKEND, Outcome::NotApplied, context, source))
    }

    /// Acquires the lock if it is the turn of the claim, whose node exists; otherwise waits.
    async fn stand(
        &self,
        queue: &Queue,
        at: usize,
        node: Node,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        match (self.standing(queue, at).await?, waiter) {
            (Standing::Fits(_), _) if node.token.is_some() => {
                self.granted(node).map(Attempt::Granted)
            }
            (Standing::Fits(slots), _) => {
                self.claim(Node { slots, ..node }).await.map(Attempt::Granted)
            }
            (Standing::Behind(_) | Standing::Full, Some(waiter)) => {
                let node = match node.token {
                    Some(_) => self.write(node, false).await?,
                    None => node,
                };
                self.wait(queue, at, node, waiter).await
            }
            (Standing::Behind(_) | Standing::Full, None) => self.busy(queue, false).await,
        }
    }

    async fn standing(&self, queue: &Queue, at: usize) -> Result<Standing, BackendError> {
        let (session, own) = (&self.session, (at, self.claim.kind));
        self.store.standing(session, &self.lock, queue, own).await
    }

    /// Creates the claim's node, and then reads the other claims. Returns true if no claim came or went in between, or
    /// if the node says that it waits.
    ///
    /// Tries again after each failure that it can mend: the parent is missing, which the server may also remove again,
    /// or another client has replaced the floor, as many do that connect at once.
    async fn create(&self, is_held: bool) -> Result<(Node, Queue, bool), BackendError> {
        let (client, owner) = (self.session.client(), self.claim.owner);
        loop {
            let floor = self.store.floors.get(&self.session).await?;
            self.note()?;
            // Both requests are sent before the first answer.
            let made = self.creation(&client, &floor, is_held);
            let made = made.map_err(|error| self.session.failed(error))?;
            let read = client.get_children(&self.lock);
            let error = match made.await {
                Ok(mut results) => {
                    let Some(MultiWriteResult::Create { path, stat }) = results.pop() else {
                        return Err(overtaken("no node was made"));
                    };
                    let made = match is_held {
                        true if stat.is_invalid() => Some(self.made(&path).await?),
                        is_held => is_held.then_some(stat.czxid),
                    };
                    let (children, lock) =
                        read.await.map_err(|error| self.session.failed(error))?;
                    let token = made.map(|made| floor.token(made)).transpose()?;
                    let node = Node { path, version: 0, token, slots: Slots::NONE };
                    let is_as_made = made.is_none_or(|made| lock.pzxid == made);
                    return Ok((node, Queue::new(children), is_as_made));
                }
                Err(error) => error,
            };
            if let MultiWriteError::OperationFailed { .. } = error {
                self.store.claims.forget(owner);
            }
            self.mend(error).await?;
        }
    }

    /// Notes the claim before its node is created or read, so that the keeper does not end it meanwhile.
    fn note(&self) -> Result<(), BackendError> {
        let Claim { name, owner, ttl, .. } = self.claim;
        let lasts = ttl.as_duration().max(WAITER_LIVENESS);
        self.store.claims.asked(name, *owner, &self.session, lasts)
    }

    /// Builds one transaction: it checks the floor and that the claim is not withdrawn, and creates the node.
    fn creation<'a>(
        &self,
        client: &'a Client,
        floor: &Floor,
        is_held: bool,
    ) -> Result<
        impl Future<Output = Result<Vec<MultiWriteResult>, MultiWriteError>> + Send + use<'a>,
        Error,
    > {
        let (store, owner) = (self.store, self.claim.owner);
        let mut write = client.new_multi_writer();
        let mark = store.root.mark(owner);
        floor.guard(&mut write)?;
        // C19: ZooKeeper cannot check that a node is missing. A transaction that creates and deletes it fails if
        // it exists.
        write.add_create(&mark, &[], &CreateMode::Ephemeral.with_acls(store.acls))?;
        write.add_delete(&mark, None)?;
        let text = self.text(is_held, Slots::NONE, Token::Offset(floor.offset));
        let path = format!("{}/{}", self.lock, Entry::prefix(owner, self.claim.kind));
        let options = CreateMode::EphemeralSequential.with_acls(store.acls);
        write.add_create(&path, text.as_bytes(), &options)?;
        Ok(write.commit())
    }

    /// Creates the missing node after a failed creation; an error if that is impossible.
    async fn mend(&self, error: MultiWriteError) -> Result<(), BackendError> {
        match error {
            MultiWriteError::OperationFailed { index: 0, source: Error::NoNode } => {
                self.store.floors.forget();
                Ok(())
            }
            MultiWriteError::OperationFailed { index: 1, source: Error::NodeExists } => {
                Err(BackendError::withdrawn(BACKEND))
            }
            MultiWriteError::OperationFailed { index: 1, source: Error::NoNode } => {
                self.store.make_folders(&self.session).await
            }
            MultiWriteError::OperationFailed { index: 3, source: Error::NoNode } => {
                // The server removes the parent some time after the last claim is gone.
                let options = CreateMode::Container.with_acls(self.store.acls);
                match self.session.client().create(&self.lock, &[], &options).await {
                    Ok(_) | Err(Error::NodeExists) => Ok(()),
                    Err(Error::NoNode) => self.store.make_folders(&self.session).await,
                    Err(error) => Err(self.session.failed(error)),
                }
            }
            error => Err(self.session.failed(error)),
        }
    }

    /// Reads the id of the transaction that created this node, which the answer to the creation lacked.
    async fn made(&self, path: &str) -> Result<i64, BackendError> {
        let stat = self.session.client().check_stat(path).await;
        let stat = stat.map_err(|error| self.session.failed(error))?;
        stat.map(|stat| stat.czxid).ok_or_else(|| overtaken("the claim was ended"))
    }

    /// Handles a claim whose node exists already.
    async fn found(
        &self,
        queue: &Queue,
        at: usize,
        waiter: Option<&WaiterHandle>,
    ) -> Result<Attempt, BackendError> {
        self.note()?;
        if let Some(own) = queue.entries().get(at) {
            self.leave_unless_in_order(own).await?;
        }
        let Some(node) = self.own_node(queue).await? else {
            return Err(overtaken("the claim was ended"));
        };
        if node.token.is_none() || at >= queue.front() {
            return self.stand(queue, at, node, waiter).await;
        }
        // C22: nobody knows of this hold, and others may have been granted since it was written.
        if self.store.claims.told(self.claim.owner) != node.token {
            return self.claim(node).await.map(Attempt::Granted);
        }
        // A read may be old: a majority carries out a check.
        match check(&self.session, [node.path.as_str()]).await {
            Ok(()) => self.granted(node).map(Attempt::Granted),
            Err(MultiWriteError::OperationFailed { .. }) => Err(overtaken("the claim was ended")),
            Err(error) => Err(self.session.failed(error)),
        }
    }

    /// Returns the claim's first node; `None` if it is gone. A node on a former session of the claim, which ends soon,
    /// moves first.
    async fn own_node(&self, queue: &Queue) -> Result<Option<Node>, BackendError> {
        let Some(entry) = queue.of(self.claim.owner).next() else { return Ok(None) };
        let path = format!("{}/{}", self.lock, entry.child);
        let Some(found) = self.store.find(&self.session, &path).await? else { return Ok(None) };
        let is_here = self.session.has(&found.stat);
        let Some(node) = found.into_node(path) else { return Ok(None) };
        if !is_here {
            self.store.move_to(&self.session, &node, self.claim.ttl.as_duration()).await?;
            return Err(overtaken("the claim has moved to another session"));
        }
        Ok(Some(node))
    }

    /// Writes that the claim holds, which makes it a hold: its turn has come.
    pub(crate) async fn claim(&self, node: Node) -> Result<Grant, BackendError> {
        let node = self.write(node, true).await?;
        self.granted(node)
    }

    /// Writes into the claim's node that it holds, or that it waits, unless another request has written it since.
    ///
    /// The token of a hold is of this transaction (C22): a claim before ours that was slow to take its turn has a
    /// greater token than a hold beside it that was quicker.
    pub(crate) async fn write(&self, node: Node, is_held: bool) -> Result<Node, BackendError> {
        let floor = self.store.floors.get(&self.session).await?;
        let slots = if is_held { node.slots.clone() } else { Slots::NONE };
        let text = self.text(is_held, slots, Token::Offset(floor.offset));
        let client = self.session.client();
        match client.set_data(&node.path, text.as_bytes(), Some(node.version)).await {
            Ok(stat) => {
                let token = is_held.then(|| floor.token(stat.mzxid)).transpose()?;
                Ok(Node { version: stat.version, token, ..node })
            }
            Err(Error::NoNode) => Err(overtaken("the claim was ended")),
            Err(Error::BadVersion) => Err(overtaken("another request wrote the claim")),
            Err(error) => Err(self.session.failed(error)),
        }
    }

    /// Notes that the claim holds, as its node says.
    pub(crate) fn granted(&self, node: Node) -> Result<Grant, BackendError> {
        let ttl = self.claim.ttl.as_duration().min(self.session.longest_ttl());
        let token = node.token.ok_or_else(|| overtaken("the claim waits"))?;
        let grant = Grant::new(token, ttl).at(self.store.time(self.asked));
        let grant = grant.with_slots(node.slots.clone());
        self.store.claims.held(self.claim.owner, &self.session, node, ttl)?;
        Ok(grant)
    }

    async fn wait(
        &self,
        queue: &Queue,
        at: usize,
        node: Node,
        waiter: &WaiterHandle,
    ) -> Result<Attempt, BackendError> {
        let (store, session) = (self.store, &self.session);
        let before = queue.entries().get(..at).unwrap_or_default();
        let mut contention = store.contention(session, &self.lock, before, self.asked).await?;
        // The names of the nodes do not show which claims on permits already hold.
        let is_known = self.claim.kind.slots() == 0;
        contention.position = is_known.then_some(at.saturating_sub(queue.front()) as u64);
        let task = store.wake_in_turn(self.claim, session, &node, waiter, queue);
        store.claims.waits(self.claim.owner, node, task, &contention);
        Ok(Attempt::Busy(contention))
    }

    async fn busy(&self, queue: &Queue, is_untaken: bool) -> Result<Attempt, BackendError> {
        let Self { store, session, lock, asked, .. } = self;
        let mut contention = store.contention(session, lock, queue.entries(), *asked).await?;
        contention.is_untaken |= is_untaken;
        Ok(Attempt::Busy(contention))
    }

    fn text(&self, is_held: bool, slots: Slots, token: Token) -> String {
        let (ttl, label) = (self.claim.ttl.as_duration(), self.claim.label.clone());
        Written { is_held, ttl, token, slots, since: None, label }.text()
    }
}
