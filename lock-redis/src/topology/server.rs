//! The servers, as the rest of the crate talks to them: commands, and scripts that they learn.

use std::sync::Arc;

use futures_util::future::try_join_all;
use lock_core::{BackendError, Finding, LockName, OwnerId};
use redis::{Cmd, ToRedisArgs, Value, cmd};

use crate::protocol::error::{
    RequestError, classify, is_unknown_script, lacks_right, lacks_rights, no_server, still_moving,
};
use crate::protocol::keys::Keys;
use crate::protocol::message::{Message, Question};
use crate::protocol::reply::read;
use crate::scripts::{Form, NO_KEYS, Program, Servers};
use crate::topology::one::{Topology, Way};
use crate::topology::rights;
use crate::wire::batch::Manner;
use crate::wire::link::LinkId;
use crate::wire::node::Node;

/// How often a request follows a server that names another. A slot that moves takes two: one to the server that
/// it moves to, one when it has moved.
const MOST_HOPS: usize = 4;

/// How many keys one step of a listing looks at.
const SCAN_STEP: usize = 1000;

/// One logical server, be it one or many.
pub(crate) struct Server {
    topology: Box<dyn Topology>,
}

impl Server {
    pub(crate) fn new(topology: impl Topology + 'static) -> Self {
        Self { topology: Box::new(topology) }
    }

    /// All servers that keep locks: at least one, unless none is known.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes = Vec::new();
        self.topology.visit(&mut |node| nodes.push(node.clone()));
        nodes
    }

    /// What the doctor finds about those who tell of the servers.
    pub(crate) async fn examine(&self) -> Option<Finding> {
        self.topology.examine().await
    }

    /// Any server that keeps locks.
    pub(crate) fn any_node(&self) -> Result<Arc<Node>, BackendError> {
        let none = || no_server("no server of the cluster is known", "it names none");
        self.nodes().into_iter().next().ok_or_else(none)
    }

    /// The server that keeps `key`.
    pub(crate) fn node_of(&self, key: &impl ToRedisArgs) -> Result<Arc<Node>, BackendError> {
        self.topology.node_of(&|| text_of(key))
    }

    /// A number that is the same for all keys of one server.
    pub(crate) fn number_of(&self, key: &impl ToRedisArgs) -> u64 {
        match self.is_spread() {
            true => self.node_of(key).map_or(0, |node| Arc::as_ptr(&node).addr() as u64),
            false => 0,
        }
    }

    /// Wakes nobody for `owner` any more.
    pub(crate) fn unregister(&self, owner: OwnerId) {
        self.topology.visit(&mut |node| node.push.unregister(owner));
    }

    /// Splits `keys` into those that one request may name, by their numbers.
    pub(crate) fn together(&self, keys: &[impl ToRedisArgs]) -> Vec<Vec<usize>> {
        let text = |number: usize| keys.get(number).map(text_of).unwrap_or_default();
        self.topology.together(keys.len(), &text)
    }

    /// The keys of all servers that match `glob`, some of them more than once. A key that is no text is not ours.
    pub(crate) async fn keys(&self, glob: &str) -> Result<Vec<String>, BackendError> {
        let nodes = self.nodes();
        let keys = try_join_all(nodes.iter().map(|node| keys_at(node, glob))).await?;
        Ok(keys.concat())
    }

    /// Sends one command about `key`, and waits for its reply.
    pub(crate) async fn send(
        &self,
        key: &impl ToRedisArgs,
        command: Cmd,
    ) -> Result<Value, BackendError> {
        self.follow(self.node_of(key)?, |_, _, _| Ok(command.clone().into())).await
    }

    /// Runs a program.
    pub(crate) async fn run(
        &self,
        program: &Program,
        keys: &[impl ToRedisArgs],
        args: impl ToRedisArgs,
    ) -> Result<Value, BackendError> {
        self.run_over(program, keys, |_, _| Ok(&args)).await
    }

    /// Runs a program that names no keys at `node`. No server sends it on to another.
    pub(crate) async fn run_at(
        &self,
        node: Arc<Node>,
        program: &Program,
        args: impl ToRedisArgs,
    ) -> Result<Value, BackendError> {
        let servers = self.servers();
        let call = |_: &Node, _, form| Ok(program.call(form, servers, &NO_KEYS, &args).into());
        self.follow(node, call).await
    }

    /// Whether a server may take the place of another with less than that had.
    pub(crate) fn servers(&self) -> Servers {
        self.topology.servers()
    }

    /// Whether locks lie on several servers, so that one request cannot name any two.
    pub(crate) fn is_spread(&self) -> bool {
        self.servers() == Servers::Spread
    }

    /// Runs a program that may end a hold and grant the lock to the next, which it does as a whole or not at all.
    pub(crate) async fn pass_on(
        &self,
        program: &Program,
        name: &LockName,
        args: impl ToRedisArgs,
    ) -> Result<Value, BackendError> {
        let keys = Keys::new(name);
        match self.is_spread() {
            true => self.run(program, &keys.passing_on(), args).await,
            false => self.run(program, &keys.granting(), args).await,
        }
    }

    /// Runs a program whose arguments depend on the server and the link that the request is sent over.
    ///
    /// A server that does not know the program, as after its restart, is sent it in a second request. That
    /// request, and one that goes on to another server, may go over another link, so `args` is asked once more.
    pub(crate) async fn run_over<A: ToRedisArgs>(
        &self,
        program: &Program,
        keys: &[impl ToRedisArgs],
        mut args: impl FnMut(&Node, LinkId) -> Result<A, BackendError>,
    ) -> Result<Value, BackendError> {
        let node = match keys {
            [first, ..] => self.node_of(first)?,
            [] => self.any_node()?,
        };
        let servers = self.servers();
        let command = |node: &Node, link, form| {
            let args = args(node, link)?;
            Ok(program.call(form, servers, keys, args).into())
        };
        self.follow(node, command).await
    }

    /// Asks what may go to a server together with others. As with [`run_over`](Self::run_over), the question
    /// depends on the server and the link, and is put once more if it has to go another way.
    pub(crate) async fn ask_over(
        &self,
        name: &LockName,
        mut question: impl FnMut(&Node, LinkId) -> Result<Question, BackendError>,
    ) -> Result<Value, BackendError> {
        let (node, servers) = (self.node_of(&Keys::new(name).lock())?, self.servers());
        self.follow(node, |node, link, form| Ok(question(node, link)?.message(form, servers))).await
    }

    /// Sends a command to `node`, or to where the servers say that it belongs.
    async fn follow(
        &self,
        node: Arc<Node>,
        mut message: impl FnMut(&Node, LinkId, Form) -> Result<Message, BackendError>,
    ) -> Result<Value, BackendError> {
        let (mut way, mut form) = (Way { node, manner: Manner::Plain }, Form::Hash);
        let (mut hops, servers) = (0, self.servers());
        loop {
            let connection = &way.node.connection;
            let link = connection.link();
            let message = message(&way.node, link.id, form)?;
            let error = match connection.send_over(&link, message, way.manner).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if form == Form::Hash && is_unknown_script(&error) {
                form = Form::Text;
                continue;
            }
            if lacks_right(&error) {
                let missing = rights::missing(&way.node, servers, "").await;
                return Err(lacks_rights(error, &missing));
            }
            way = self.next(&way, error, hops)?;
            (form, hops) = (Form::Hash, hops + 1);
        }
    }

    /// Where a request that failed goes next. A server that names another has not carried it out.
    fn next(&self, way: &Way, error: RequestError, hops: usize) -> Result<Way, BackendError> {
        match (self.topology.redirected(&way.node, &error), error) {
            (Some(next), _) if hops < MOST_HOPS => Ok(next),
            (Some(_), RequestError::Execute(error)) => Err(still_moving(error)),
            (_, error) => Err(classify(error)),
        }
    }
}

async fn keys_at(node: &Node, glob: &str) -> Result<Vec<String>, BackendError> {
    let (mut cursor, mut found) = (0u64, Vec::new());
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_STEP);
        let page = node.send(scan).await?;
        let (next, keys): (u64, Vec<Vec<u8>>) = read(page, "a page of keys")?;
        found.extend(keys.into_iter().filter_map(|key| String::from_utf8(key).ok()));
        if next == 0 {
            return Ok(found);
        }
        cursor = next;
    }
}

/// Those of `all` whose numbers are in `group`.
pub(crate) fn picked<'a, T>(all: &'a [T], group: &'a [usize]) -> impl Iterator<Item = &'a T> {
    group.iter().filter_map(|number| all.get(*number))
}

/// The answers to groups of keys, each of which has as many as keys, in the order of the keys.
pub(crate) fn in_order<T>(groups: Vec<Vec<usize>>, answers: Vec<Vec<T>>) -> Vec<T> {
    let numbers = groups.into_iter().flatten();
    let mut answers: Vec<_> = numbers.zip(answers.into_iter().flatten()).collect();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A key as the server reads it.
fn text_of(key: &impl ToRedisArgs) -> Vec<u8> {
    key.to_redis_args().into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_answers_to_groups_stand_in_the_order_of_their_keys() {
        let answers = vec![vec!['d', 'a'], vec!['b'], vec!['c']];
        assert_eq!(in_order(vec![vec![3, 0], vec![1], vec![2]], answers), ['a', 'b', 'c', 'd']);
    }
}
