//! Requests that go to the server in one write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Pipeline, RedisError, Value};
use tokio::sync::oneshot;

use crate::together::{JoiningId, Together};

pub(crate) type Reply = Result<Value, RedisError>;

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    /// As one of a cluster that a slot moves to: it serves the slot yet only to those that say so.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "for clusters alone"))]
    Asking,
}

/// A command, and where its caller waits.
pub(crate) struct Request {
    command: Cmd,
    manner: Manner,
    /// Which others may go in one call with it; `None` if it goes alone.
    joining: Option<JoiningId>,
    caller: oneshot::Sender<Reply>,
    _outstanding: Outstanding,
}

/// A request that is outstanding for as long as this lives.
pub(crate) struct Outstanding(Arc<AtomicUsize>);

impl Outstanding {
    /// Counts a request, and tells whether it is alone.
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
    /// A request, and where its reply comes.
    pub(crate) fn new(
        command: Cmd,
        manner: Manner,
        outstanding: Outstanding,
    ) -> (Self, oneshot::Receiver<Reply>) {
        let (caller, reply) = oneshot::channel();
        // What a server is asked in another manner is a case of its own.
        let joining = JoiningId::of(&command).filter(|_| manner == Manner::Plain);
        (Self { command, manner, joining, caller, _outstanding: outstanding }, reply)
    }

    /// Whether its caller is still there.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    /// Answers it, or returns it as one that goes alone.
    fn answer_or_leave(self, answer: Option<Value>) -> Option<Self> {
        match answer {
            Some(answer) => self.answer(Ok(answer)),
            None => return Some(Self { joining: None, ..self }),
        }
        None
    }

    fn answer(self, reply: Reply) {
        // The caller may have left.
        let _ = self.caller.send(reply);
    }
}

/// Sends a batch, and tells each caller its reply. Returns what was left, and goes alone next.
pub(crate) async fn send(
    mut driver: MultiplexedConnection,
    together: &Together,
    batch: Vec<Request>,
) -> Vec<Request> {
    let mut parts = parts(together, batch);
    let mut pipeline = Pipeline::with_capacity(parts.len());
    for part in &mut parts {
        if part.is_asking() {
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(part.command(together));
    }
    match driver.send_packed_commands(&pipeline, 0, pipeline.len()).await {
        Ok(replies) => {
            let replies = pipeline.cmd_iter().zip(replies);
            let replies = replies.filter(|(command, _)| !is_asking(command));
            let answered = parts.into_iter().zip(replies);
            answered.flat_map(|(part, (_, reply))| part.answer(together, reply)).collect()
        }
        Err(error) => {
            let requests = parts.into_iter().flat_map(|part| part.requests);
            requests.for_each(|request| request.answer(Err(error.clone())));
            Vec::new()
        }
    }
}

/// The command that goes before one of [`Manner::Asking`], whose reply tells nothing.
fn is_asking(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"ASKING")))
}

/// Requests that are one command.
struct Part {
    /// How others may join them, if they may.
    joining: Option<JoiningId>,
    requests: Vec<Request>,
}

/// Puts together what goes in one call, at the place of its first.
///
/// So a request may come earlier than those that were made before it, and none comes later. A withdrawal goes
/// alone: it still comes after all requests of its claim (C19).
fn parts(together: &Together, batch: Vec<Request>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(batch.len());
    for request in batch {
        match parts.iter_mut().find(|part| part.admits(&request)) {
            Some(part) => part.requests.push(request),
            None => {
                let joining = request.joining.filter(|joining| together.is_accepted(*joining));
                parts.push(Part { joining, requests: vec![request] });
            }
        }
    }
    parts
}

impl Part {
    fn is_asking(&self) -> bool {
        self.requests.iter().any(|request| request.manner == Manner::Asking)
    }

    fn admits(&self, request: &Request) -> bool {
        let joining = self.joining.filter(|joining| request.joining == Some(*joining));
        let first = self.requests.first();
        joining
            .zip(first)
            .is_some_and(|(joining, first)| joining.joins(&first.command, &request.command))
    }

    fn command(&mut self, together: &Together) -> Cmd {
        match (self.joining, &mut self.requests[..]) {
            (Some(joining), many @ [_, _, ..]) => {
                let commands: Vec<&Cmd> = many.iter().map(|request| &request.command).collect();
                together.call(joining, &commands)
            }
            (_, alone) => {
                alone.first_mut().map(|request| request.command.take()).unwrap_or_default()
            }
        }
    }

    /// Tells each caller its answer. Returns the requests that were left.
    fn answer(mut self, together: &Together, reply: Value) -> Vec<Request> {
        match self.joining {
            Some(joining) if self.requests.len() > 1 => {
                let answers = together.answers(joining, self.requests.len(), reply);
                let requests = self.requests.into_iter().zip(answers);
                requests.filter_map(|(request, answer)| request.answer_or_leave(answer)).collect()
            }
            _ => {
                let reply = reply.extract_error();
                self.requests.drain(..).for_each(|request| request.answer(reply.clone()));
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::LockName;

    use super::*;
    use crate::keys::Keys;
    use crate::scripts::{ACQUIRE, Form, Servers, WITHDRAW};

    fn request(command: Cmd) -> Request {
        Request::new(command, Manner::Plain, Outstanding::begin(&Arc::default()).0).0
    }

    fn acquire(name: &LockName, ttl: u64) -> Request {
        let keys = Keys::new(name);
        request(ACQUIRE.call(
            Form::Hash,
            Servers::One,
            &keys.claiming("me"),
            ("me", ttl, "a label", "", 1),
        ))
    }

    fn withdraw(name: &LockName) -> Request {
        request(WITHDRAW.call(
            Form::Hash,
            Servers::One,
            &Keys::new(name).claiming("me"),
            ("me", 1, 0),
        ))
    }

    #[test]
    fn c19_nothing_of_a_claim_comes_after_its_withdrawal() {
        let [a, b] = ["a", "b"].map(|name| LockName::new(name).expect("a name"));
        let batch =
            vec![acquire(&a, 10), withdraw(&a), acquire(&b, 10), acquire(&b, 20), withdraw(&b)];
        let parts = parts(&Together::default(), batch);
        let sizes: Vec<usize> = parts.iter().map(|part| part.requests.len()).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        let joined: Vec<bool> = parts.iter().map(|part| part.joining.is_some()).collect();
        assert_eq!(joined, [true, false, true, false]);
    }
}
