//! Batches: requests that go to the server in one write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Pipeline, Value};
use tokio::sync::oneshot;

use crate::protocol::message::Message;
use crate::wire::delivery::{Reply, ReplyTo};
use crate::wire::together::Together;

/// Manner of asking a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    /// For a request to the server to which a slot moves. That server serves the slot only after this
    /// announcement.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "for clusters alone"))]
    Asking,
}

/// A question to a server, and the channel on which its caller waits.
pub(crate) struct Request {
    message: Message,
    manner: Manner,
    caller: oneshot::Sender<Reply>,
    _outstanding: Outstanding,
}

/// While this lives, a request is outstanding.
pub(crate) struct Outstanding(Arc<AtomicUsize>);

impl Outstanding {
    /// Counts a request; returns true if it is alone.
    pub(crate) fn begin(count: &Arc<AtomicUsize>) -> (Self, bool) {
        let others = count.fetch_add(1, Ordering::AcqRel);
        (Self(count.clone()), others == 0)
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Request {
    /// Returns a request, and the channel of its reply.
    pub(crate) fn new(
        message: Message,
        manner: Manner,
        outstanding: Outstanding,
    ) -> (Self, oneshot::Receiver<Reply>) {
        let (caller, reply) = oneshot::channel();
        (Self { message, manner, caller, _outstanding: outstanding }, reply)
    }

    /// Returns true if its caller is still there.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    /// Marks it as a request that goes alone.
    fn left(mut self) -> Self {
        self.message = self.message.take_command().into();
        self
    }
}

/// Outcome of a batch.
#[derive(Default)]
pub(crate) struct BatchOutcome {
    pub(crate) answers: Vec<ReplyTo>,
    /// Requests that go alone next.
    pub(crate) left: Vec<Request>,
}

impl BatchOutcome {
    fn answer(&mut self, request: Request, reply: Reply) {
        self.answers.push((request.caller, reply));
    }
}

/// Sends a batch, and waits for its replies.
pub(crate) async fn send(
    mut driver: MultiplexedConnection,
    together: &Together,
    batch: Vec<Request>,
) -> BatchOutcome {
    let mut parts = parts(together, batch);
    let mut pipeline = Pipeline::with_capacity(parts.len());
    for part in &mut parts {
        if part.is_asking() {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(part.command(together));
    }
    let mut outcome = BatchOutcome::default();
    match driver.send_packed_commands(&pipeline, 0, pipeline.len()).await {
        Ok(replies) => {
            let replies = pipeline.cmd_iter().zip(replies);
            let replies = replies.filter(|(command, _)| !is_asking(command));
            for (part, (_, reply)) in parts.into_iter().zip(replies) {
                part.answer(together, reply, &mut outcome);
            }
        }
        Err(error) => {
            let requests =
                parts.into_iter().flat_map(|part| [part.first].into_iter().chain(part.others));
            requests.for_each(|request| outcome.answer(request, Err(error.clone())));
        }
    }
    outcome
}

/// Returns true for the command before one of [`Manner::Asking`], whose reply is ignored.
fn is_asking(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"ASKING")))
}

/// Requests that share one command: a first one, and others that join it.
struct Part {
    first: Request,
    others: Vec<Request>,
}

/// Joins requests that share a call, at the place of the first one.
///
/// So a request may be sent earlier than older ones, but never later. A withdrawal goes alone: it still comes after
/// all requests of its claim (C19).
fn parts(together: &Together, batch: Vec<Request>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(batch.len());
    for request in batch {
        let is_accepted = together.is_accepted(&request.message);
        let joins = |part: &&mut Part| is_accepted && part.first.message.joins(&request.message);
        let joined = parts.iter_mut().find(joins);
        match joined {
            Some(part) => part.others.push(request),
            None => parts.push(Part { first: request, others: Vec::new() }),
        }
    }
    parts
}

impl Part {
    fn is_asking(&self) -> bool {
        self.first.manner == Manner::Asking
    }

    fn command(&mut self, together: &Together) -> Cmd {
        match &self.others[..] {
            [] => self.first.message.take_command(),
            others => {
                let others: Vec<_> = others.iter().map(|other| &other.message).collect();
                together.call(&self.first.message, &others)
            }
        }
    }

    /// Sorts its requests into answered ones and left ones.
    fn answer(self, together: &Together, reply: Value, outcome: &mut BatchOutcome) {
        if self.others.is_empty() {
            return outcome.answer(self.first, reply.extract_error());
        }
        let answers = together.answers(&self.first.message, 1 + self.others.len(), reply);
        let requests = [self.first].into_iter().chain(self.others);
        for (request, answer) in requests.zip(answers) {
            match answer {
                Some(answer) => outcome.answer(request, Ok(answer)),
                None => outcome.left.push(request.left()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{LockName, OwnerId};
    use redis::cmd;

    use super::*;
    use crate::protocol::message::Acquiring;

    fn request(message: Message) -> Request {
        Request::new(message, Manner::Plain, Outstanding::begin(&Arc::default()).0).0
    }

    fn acquire(ttl_ms: u64) -> Request {
        let (name, owner) = (LockName::new("a").expect("a name"), OwnerId::random());
        let (label, channel) = (Default::default(), "".into());
        let acquiring = Acquiring { name, owner, ttl_ms, label, channel, limit: 1, kind: None };
        request(Message::Acquire(acquiring))
    }

    fn withdraw() -> Request {
        request(cmd("EVALSHA").into())
    }

    #[test]
    fn c19_nothing_of_a_claim_comes_after_its_withdrawal() {
        let batch = vec![acquire(10), withdraw(), acquire(10), acquire(20), withdraw()];
        let parts = parts(&Together::default(), batch);
        let sizes: Vec<usize> = parts.iter().map(|part| 1 + part.others.len()).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        let is_joinable = |part: &Part| matches!(part.first.message, Message::Acquire(_));
        let joinable: Vec<bool> = parts.iter().map(is_joinable).collect();
        assert_eq!(joinable, [true, false, true, false]);
    }
}
