//! An exhaustive search for two grants in the wrong order. It tries every order in which the messages of two
//! clients can arrive at three nodes, be lost, or arrive twice.
//!
//! The protocol must pass. Four others must fail, which shows that the search works: the ones that seem obvious
//! at first. `proof/tests/quorum` has servers that restart, renewals and evictions.

#![allow(clippy::expect_used, clippy::panic)]

mod state;

use std::collections::{HashSet, VecDeque};

use crate::state::{
    ATTEMPTS, Asker, CLIENTS, LATEST, Letter, MAJORITY, Message, NODES, Node, Phase, State,
    begin_writing, bit, ended, give_back, letters, post, propose, write,
};

/// Rule that makes tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// The protocol: a node grants ballots that grow.
    Ballot,
    /// Each node counts its grants; the token is the greatest count.
    CountGrants,
    /// Each node counts the attempts; the token is the greatest count.
    CountAttempts,
    /// The token is the greatest counter plus one, and is then written to the nodes.
    WriteBack,
    /// Like the protocol, but a vote for an earlier attempt of the same owner counts for the next one.
    EarlierVotes,
}

/// Trouble besides late, lost and doubled messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Nothing,
    /// A driver sends a request again, or a renewal asks for a vote again.
    Repeat,
    /// The deadline of a hold passes, and then its TTL on the nodes.
    Expiry,
}

impl Rule {
    fn has_ballots(self) -> bool {
        matches!(self, Self::Ballot | Self::EarlierVotes)
    }
}

struct Search {
    rule: Rule,
    trouble: Trouble,
}

impl Search {
    /// Visits all states. Returns their number, or the violation of the order of tokens.
    fn run(&self) -> Result<usize, String> {
        let (mut seen, mut open) = (HashSet::new(), VecDeque::from([State::default()]));
        // Breadth first: finds the violation with the fewest steps.
        while let Some(state) = open.pop_front() {
            for mut next in self.successors(&state)? {
                self.forget_what_is_stale(&mut next);
                // Nodes are interchangeable.
                next.nodes.sort_unstable();
                if seen.insert(next) {
                    open.push_back(next);
                }
            }
        }
        Ok(seen.len())
    }

    /// Drops letters that can change nothing any more: they only add states.
    fn forget_what_is_stale(&self, state: &mut State) {
        let clients = &state.clients;
        if !self.rule.has_ballots() {
            return;
        }
        for Node { key, counter, inbox, .. } in &mut state.nodes {
            let matters = |&(message, client, attempt): &Letter| {
                let (owner, ballot) = clients[client].attempts[attempt];
                let is_last = attempt + 1 == clients[client].made;
                let is_awaited = is_last && clients[client].phase == Phase::Asking;
                let has_key = key.is_some_and(|(holder, of, _)| (holder, of) == (client, owner));
                ballot > *counter || has_key || (message == Message::Vote && is_awaited)
            };
            *inbox = letters(*inbox).filter(matters).fold(0, |all, letter| all | bit(letter));
        }
    }

    fn attempts(&self, client: usize) -> usize {
        if self.trouble == Trouble::Nothing { ATTEMPTS[client] } else { 1 }
    }

    fn successors(&self, state: &State) -> Result<Vec<State>, String> {
        let mut all = Vec::new();
        for client in 0..CLIENTS {
            self.act(state, client, &mut all);
        }
        for node in 0..NODES {
            for letter in letters(state.nodes[node].inbox) {
                self.deliver(state, node, letter, &mut all)?;
            }
            all.extend(self.befall(state, node));
        }
        Ok(all)
    }

    /// Collects the next steps of a client.
    fn act(&self, state: &State, client: usize, all: &mut Vec<State>) {
        let me = &state.clients[client];
        match me.phase {
            Phase::Idle if me.made < self.attempts(client) => {
                let latest = if self.rule.has_ballots() { LATEST } else { 1 };
                let mut ballots: Vec<u8> = (1..=latest).map(|time| time.max(me.seen + 1)).collect();
                ballots.dedup();
                all.extend(ballots.into_iter().map(|ballot| propose(state, client, ballot)));
            }
            Phase::Idle => {}
            Phase::Asking | Phase::Writing => all.push(give_back(state, client, false)),
            Phase::Holding => {
                all.push(give_back(state, client, true));
                if self.trouble == Trouble::Expiry {
                    all.push(ended(state, client, true));
                }
            }
        }
        if self.trouble == Trouble::Repeat && me.phase != Phase::Idle {
            let letter = (Message::Vote, client, me.made - 1);
            all.extend((0..NODES).map(|node| {
                let mut next = *state;
                post(&mut next.nodes[node], letter);
                next
            }));
        }
    }

    /// Delivers a letter to a node; the answer returns, or is lost.
    fn deliver(
        &self,
        state: &State,
        node: usize,
        letter: Letter,
        all: &mut Vec<State>,
    ) -> Result<(), String> {
        let mut next = *state;
        let (message, client, attempt) = letter;
        next.nodes[node].inbox &= !bit(letter);
        let (owner, ballot) = state.clients[client].attempts[attempt];
        let (this, asker) = (&mut next.nodes[node], (client, owner, ballot));
        let (answer, awaited) = match message {
            Message::Vote => (self.vote(this, asker), Phase::Asking),
            Message::Write => (write(this, state.clients[client].token), Phase::Writing),
            Message::Back => {
                self.back(this, asker);
                all.push(next);
                return Ok(());
            }
        };
        all.push(next);
        let me = &next.clients[client];
        if attempt + 1 == me.made && me.phase == awaited {
            self.hear(&mut next, client, node, answer)?;
            all.push(next);
        }
        Ok(())
    }

    /// Returns true if the node grants, and its counter.
    fn vote(&self, node: &mut Node, asker: Asker) -> (bool, u8) {
        if self.rule == Rule::CountAttempts {
            node.counter += 1;
        }
        let (client, owner, ballot) = asker;
        let own = node.key.filter(|(holder, of, _)| (*holder, *of) == (client, owner));
        match own {
            // C16: a repeat finds its own vote.
            Some((.., held)) if self.rule != Rule::Ballot || held == ballot => (true, node.counter),
            None if node.key.is_some() => (false, node.counter),
            _ if self.rule.has_ballots() && ballot <= node.counter => (false, node.counter),
            _ => {
                node.key = Some(asker);
                match self.rule {
                    Rule::Ballot | Rule::EarlierVotes => node.counter = ballot,
                    Rule::CountGrants => node.counter += 1,
                    Rule::CountAttempts | Rule::WriteBack => {}
                }
                (true, node.counter)
            }
        }
    }

    /// Takes a grant back; a later vote for it is stale.
    fn back(&self, node: &mut Node, (client, owner, ballot): Asker) {
        let is_its = |(holder, of, held): Asker| {
            (holder, of) == (client, owner) && (!self.rule.has_ballots() || held <= ballot)
        };
        if node.key.is_some_and(is_its) {
            node.key = None;
        }
        if self.rule.has_ballots() {
            node.counter = node.counter.max(ballot);
        }
    }

    /// Delivers an answer to a client, which may now have a majority.
    fn hear(
        &self,
        state: &mut State,
        client: usize,
        node: usize,
        (granted, counter): (bool, u8),
    ) -> Result<(), String> {
        let writes = state.clients[client].phase == Phase::Writing;
        state.clients[client].seen = state.clients[client].seen.max(counter);
        let this = &mut state.nodes[node];
        let heard = if writes { &mut this.written } else { &mut this.counted };
        heard[client] |= granted;
        let of = |node: &&Node| if writes { node.written[client] } else { node.counted[client] };
        if state.nodes.iter().filter(of).count() < MAJORITY {
            return Ok(());
        }
        let me = &state.clients[client];
        match self.rule {
            Rule::Ballot | Rule::EarlierVotes => {
                grant(self.rule, state, client, me.attempts[me.made - 1].1)
            }
            Rule::CountGrants | Rule::CountAttempts => grant(self.rule, state, client, me.seen),
            Rule::WriteBack if writes => grant(self.rule, state, client, me.token),
            Rule::WriteBack => {
                begin_writing(state, client);
                Ok(())
            }
        }
    }

    /// Returns the state after the trouble struck a node.
    fn befall(&self, state: &State, node: usize) -> Option<State> {
        let is_current = |(client, owner, _): Asker| {
            let client = &state.clients[client];
            client.owner == owner && client.phase != Phase::Idle
        };
        let mut next = *state;
        let this = &mut next.nodes[node];
        match self.trouble {
            Trouble::Expiry if this.key.is_some_and(|key| !is_current(key)) => this.key = None,
            _ => return None,
        }
        Some(next)
    }
}

/// S2, S3: a token is greater than all earlier ones, and no other client holds. The controls must fail by their
/// tokens.
fn grant(rule: Rule, state: &mut State, client: usize, token: u8) -> Result<(), String> {
    if rule.has_ballots() && state.clients.iter().any(|other| other.phase == Phase::Holding) {
        return Err("two hold at the same time".to_owned());
    }
    if token <= state.granted {
        return Err(format!("{token} is granted after {}", state.granted));
    }
    state.granted = token;
    (state.clients[client].phase, state.clients[client].token) = (Phase::Holding, token);
    Ok(())
}

fn search(rule: Rule, trouble: Trouble) -> Result<usize, String> {
    let found = Search { rule, trouble }.run();
    println!("{rule:?}, {trouble:?}: {found:?}");
    found
}

#[test]
fn s2_ballots_are_unique_and_grow_in_every_order_of_messages() {
    for trouble in [Trouble::Nothing, Trouble::Repeat, Trouble::Expiry] {
        search(Rule::Ballot, trouble).expect("no violation");
    }
}

/// The positive controls.
#[test]
fn s2_what_one_would_think_of_first_is_seen_to_fail() {
    for rule in [Rule::CountGrants, Rule::CountAttempts, Rule::WriteBack, Rule::EarlierVotes] {
        search(rule, Trouble::Nothing).expect_err("a violation");
    }
}
