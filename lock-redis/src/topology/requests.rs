//! Requests to the servers: commands, and scripts that the servers learn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::{BackendError, LockName};
use redis::{Cmd, ToRedisArgs, Value, cmd};

use crate::protocol::error::{
    RequestError, is_unknown_script, lacks_command, lacks_right, lacks_rights, no_server,
    still_moving,
};
use crate::protocol::keys::{self, Keys};
use crate::protocol::listing::{cut_short, names_of};
use crate::protocol::message::Message;
use crate::protocol::reply::read;
use crate::scripts::{Form, NO_KEYS, Program};
use crate::topology::{Topology, kind, rights};
use crate::wire::batch::Manner;
use crate::wire::link::Link;
use crate::wire::node::Node;

/// Most redirections of one request. A moving slot needs two: one to the new server, one when the slot has moved.
const MOST_HOPS: usize = 4;

/// Number of keys in one step of a listing.
const SCAN_STEP: usize = 1000;

impl Topology {
    /// Returns any server with locks.
    fn any_node(&self) -> Result<Arc<Node>, BackendError> {
        let none = || no_server("no server of the cluster is known", "it names none");
        self.nodes().into_iter().next().ok_or_else(none)
    }

    /// Returns the names that start with `prefix` of all locks that may be held, sorted, and the errors of the servers
    /// that did not tell all of theirs. A key of another application may look like a lock. Stops after `time` with an
    /// error that says so.
    pub(crate) async fn names_within(
        &self,
        prefix: &str,
        time: Duration,
    ) -> (Vec<LockName>, Vec<BackendError>) {
        let (nodes, complete, glob) = (self.nodes(), self.check_complete(), keys::locks(prefix));
        let found = join_all(nodes.iter().map(|node| keys_at(node, &glob, time))).await;
        let (keys, missing): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        (names_of(&keys.concat()), missing.into_iter().flatten().chain(complete.err()).collect())
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
        self.run_over(program, keys, |_| Ok(&args)).await
    }

    /// Runs a program without keys at `node`. No server redirects it.
    pub(crate) async fn run_at(
        &self,
        node: Arc<Node>,
        program: &Program,
        args: impl ToRedisArgs,
    ) -> Result<Value, BackendError> {
        let servers = self.servers();
        let call =
            |_: &Node, _: &Arc<Link>, form| Ok(program.call(form, servers, &NO_KEYS, &args).into());
        self.follow(node, call).await
    }

    /// Runs a program that may end a hold and grant the lock to the next waiter, completely or not at all.
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

    /// Runs a program whose arguments depend on the link of the request.
    ///
    /// A server that does not know the program, as after its restart, gets it in a second request. That request, and
    /// a redirected one, may use another link, so `args` is called again.
    pub(crate) async fn run_over<A: ToRedisArgs>(
        &self,
        program: &Program,
        keys: &[impl ToRedisArgs],
        mut args: impl FnMut(&Arc<Link>) -> Result<A, BackendError>,
    ) -> Result<Value, BackendError> {
        let node = match keys {
            [first, ..] => self.node_of(first)?,
            [] => self.any_node()?,
        };
        let servers = self.servers();
        let command = |_: &Node, link: &Arc<Link>, form| {
            Ok(program.call(form, servers, keys, args(link)?).into())
        };
        self.follow(node, command).await
    }

    /// Sends a request that may share a call with others. The message depends on the server, and is made again if
    /// the request takes another way.
    pub(crate) async fn ask(
        &self,
        name: &LockName,
        mut message: impl FnMut(&Node) -> Message,
    ) -> Result<Value, BackendError> {
        let (node, servers) = (self.node_of(&Keys::new(name).lock())?, self.servers());
        self.follow(node, |node, _, form| Ok(message(node).fixed(form, servers))).await
    }

    /// Sends a command to `node`, or to the server to which it is redirected.
    async fn follow(
        &self,
        node: Arc<Node>,
        mut message: impl FnMut(&Node, &Arc<Link>, Form) -> Result<Message, BackendError>,
    ) -> Result<Value, BackendError> {
        let (mut node, mut manner, mut form) = (node, Manner::Plain, Form::Hash);
        let (mut hops, servers) = (0, self.servers());
        loop {
            let connection = &node.connection;
            let link = connection.link();
            let message = message(&node, &link, form)?;
            let error = match connection.send_over(&link, message, manner).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if form == Form::Hash && is_unknown_script(&error) {
                form = Form::Text;
                continue;
            }
            if lacks_command(&error) {
                return Err(kind::explained(&node, error).await);
            }
            if lacks_right(&error) {
                let missing = rights::missing(&node, servers, "").await;
                return Err(lacks_rights(error, &missing));
            }
            (node, manner) = self.next(&node, error, hops)?;
            (form, hops) = (Form::Hash, hops + 1);
        }
    }

    /// Returns the next server for a failed request. A server that names another has not carried out the request.
    fn next(
        &self,
        node: &Node,
        error: RequestError,
        hops: usize,
    ) -> Result<(Arc<Node>, Manner), BackendError> {
        match (self.redirected(node, &error), error) {
            (Some(next), _) if hops < MOST_HOPS => Ok(next),
            (Some(_), RequestError::Execute(error)) => Err(still_moving(error)),
            (_, error) => Err(node.failed(error)),
        }
    }
}

/// Returns the keys at one server that match `glob`, and an error if they are not all.
async fn keys_at(node: &Node, glob: &str, time: Duration) -> (Vec<String>, Option<BackendError>) {
    let (mut cursor, mut found, begun) = (0u64, Vec::new(), Instant::now());
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_STEP);
        let page = node.in_time(node.send(scan)).await;
        let page: Result<(u64, Vec<Vec<u8>>), _> =
            page.and_then(|page| read(page, "a page of keys"));
        match page {
            Err(error) => return (found, Some(error)),
            Ok((next, keys)) => {
                found.extend(keys.into_iter().filter_map(|key| String::from_utf8(key).ok()));
                cursor = next;
            }
        }
        if cursor == 0 {
            return (found, None);
        }
        if begun.elapsed() >= time {
            return (found, Some(cut_short(time, "the server has more keys than were looked at")));
        }
    }
}

/// Returns the items of `all` whose numbers are in `group`.
pub(crate) fn picked<'a, T>(all: &'a [T], group: &'a [usize]) -> impl Iterator<Item = &'a T> {
    group.iter().filter_map(|number| all.get(*number))
}

/// Puts the answers to groups of keys into the order of the keys. Each group has one answer a key.
pub(crate) fn in_order<T>(groups: Vec<Vec<usize>>, answers: Vec<Vec<T>>) -> Vec<T> {
    let numbers = groups.into_iter().flatten();
    let mut answers: Vec<_> = numbers.zip(answers.into_iter().flatten()).collect();
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
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
