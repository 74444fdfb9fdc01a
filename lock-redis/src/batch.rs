//! Requests that go to the server in one write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::oneshot;

use crate::together::{FormId, Together};

pub(crate) type Reply = Result<Value, RedisError>;

/// A command, and where its caller waits.
pub(crate) struct Request {
    command: Cmd,
    /// Which others may go in one call with it; `None` if it goes alone.
    form: Option<FormId>,
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
    pub(crate) fn new(command: Cmd, outstanding: Outstanding) -> (Self, oneshot::Receiver<Reply>) {
        let (caller, reply) = oneshot::channel();
        let form = FormId::of(&command);
        (Self { command, form, caller, _outstanding: outstanding }, reply)
    }

    /// Whether its caller is still there.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.caller.is_closed()
    }

    /// Answers it, or returns it as one that goes alone.
    fn answer_or_leave(self, answer: Option<Value>) -> Option<Self> {
        match answer {
            Some(answer) => self.answer(Ok(answer)),
            None => return Some(Self { form: None, ..self }),
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
        pipeline.add_command(part.command(together));
    }
    match driver.send_packed_commands(&pipeline, 0, parts.len()).await {
        Ok(replies) => {
            let parts = parts.into_iter().zip(replies);
            parts.flat_map(|(part, reply)| part.answer(together, reply)).collect()
        }
        Err(error) => {
            let requests = parts.into_iter().flat_map(|part| part.requests);
            requests.for_each(|request| request.answer(Err(error.clone())));
            Vec::new()
        }
    }
}

/// Requests that are one command.
struct Part {
    /// Of what form they are, if others may join them.
    form: Option<FormId>,
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
                let form = request.form.filter(|form| together.is_accepted(*form));
                parts.push(Part { form, requests: vec![request] });
            }
        }
    }
    parts
}

impl Part {
    fn admits(&self, request: &Request) -> bool {
        let form = self.form.filter(|form| request.form == Some(*form));
        let first = self.requests.first();
        form.zip(first).is_some_and(|(form, first)| form.joins(&first.command, &request.command))
    }

    fn command(&mut self, together: &Together) -> Cmd {
        match (self.form, &mut self.requests[..]) {
            (Some(form), many @ [_, _, ..]) => {
                let commands: Vec<&Cmd> = many.iter().map(|request| &request.command).collect();
                together.call(form, &commands)
            }
            (_, alone) => {
                alone.first_mut().map(|request| request.command.take()).unwrap_or_default()
            }
        }
    }

    /// Tells each caller its answer. Returns the requests that were left.
    fn answer(mut self, together: &Together, reply: Value) -> Vec<Request> {
        match self.form {
            Some(form) if self.requests.len() > 1 => {
                let answers = together.answers(form, self.requests.len(), reply);
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
    use crate::scripts::{ACQUIRE, WITHDRAW};

    fn request(command: Cmd) -> Request {
        Request::new(command, Outstanding::begin(&Arc::default()).0).0
    }

    fn acquire(name: &LockName, ttl: u64) -> Request {
        let keys = Keys::new(name);
        request(ACQUIRE.by_hash(&keys.claiming("me"), ("me", ttl, "a label", "", 1)))
    }

    fn withdraw(name: &LockName) -> Request {
        request(WITHDRAW.by_hash(&Keys::new(name).claiming("me"), ("me", 1, 0)))
    }

    #[test]
    fn c19_nothing_of_a_claim_comes_after_its_withdrawal() {
        let [a, b] = ["a", "b"].map(|name| LockName::new(name).expect("a name"));
        let batch =
            vec![acquire(&a, 10), withdraw(&a), acquire(&b, 10), acquire(&b, 20), withdraw(&b)];
        let parts = parts(&Together::default(), batch);
        let sizes: Vec<usize> = parts.iter().map(|part| part.requests.len()).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        let joined: Vec<bool> = parts.iter().map(|part| part.form.is_some()).collect();
        assert_eq!(joined, [true, false, true, false]);
    }
}
