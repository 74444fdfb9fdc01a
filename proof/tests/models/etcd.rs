//! Claims on etcd: sessions that end, and watches whose events overtake each other.

use lock_testkit::explore::Model;

use crate::{CLIENTS, Grants, falls, stands};

/// The way in which a waiter learns of its turn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum EtcdClaims {
    /// The revision of the claims before its own identifies them; a poll finds missed events.
    Protocol,
    /// The client identifies a claim: an event of an earlier claim counts as one of a later claim.
    KnownByClient,
    /// Only a watch reports: a lost event is never found.
    WithoutPoll,
    /// A client believes until it learns that its session has ended.
    WithoutDeadline,
    /// The token is the number of present claims, instead of the revision.
    TokenByCount,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    /// The revision of its claim, as far as it knows; 0 for none.
    claim: u8,
    /// The claims for which it waits: the revision of each client's claim that it saw.
    before: [u8; CLIENTS],
    believes: bool,
    /// Number of claims that it may still make.
    left: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    revision: u8,
    /// The revision of each client's claim on the server; 0 for none.
    claims: [u8; CLIENTS],
    clients: [Client; CLIENTS],
    /// Events in flight to a client: the greatest deleted claim of each other client, in any order.
    events: [[u8; CLIENTS]; CLIENTS],
    grants: Grants,
    sessions_ended: u8,
    lost: bool,
}

impl Model for EtcdClaims {
    type State = State;

    fn start(&self) -> State {
        let mut state = State::default();
        for (client, left) in state.clients.iter_mut().zip([2, 2, 1]) {
            client.left = left;
        }
        state
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let mut all = Vec::new();
        for client in 0..CLIENTS {
            let mut add = |step: &str, next: Option<State>| {
                all.extend(next.map(|next| (format!("{client} {step}"), next)));
            };
            add("claims", self.claim(state, client));
            add("is told", self.poll(state, client));
            add("releases", release(state, client));
            add("is late", self.late(state, client));
            add("loses its session", end_session(state, client));
            for other in 0..CLIENTS {
                add("hears of a deletion", self.hear(state, client, other));
                add("misses an event", miss(state, client, other));
            }
        }
        all
    }

    fn wrong(&self, state: &State) -> Option<String> {
        if state.clients.iter().filter(|client| client.believes).count() > 1 {
            return Some("two hold".to_owned());
        }
        state.grants.is_out_of_order.then(|| "a token does not grow".to_owned())
    }

    fn is_done(&self, state: &State) -> bool {
        state.claims == [0; CLIENTS] && state.clients.iter().all(|client| client.left == 0)
    }
}

impl EtcdClaims {
    fn claim(self, state: &State, client: usize) -> Option<State> {
        let me = state.clients[client];
        if state.claims[client] != 0 || me.believes || me.left == 0 {
            return None;
        }
        let mut next = *state;
        next.revision += 1;
        (next.claims[client], next.clients[client].claim) = (next.revision, next.revision);
        next.clients[client].before = state.claims;
        next.clients[client].left -= 1;
        self.believe_if_first(&mut next, client);
        Some(next)
    }

    /// Receives an event: a claim before its own is gone.
    fn hear(self, state: &State, client: usize, other: usize) -> Option<State> {
        let gone = state.events[client][other];
        if gone == 0 {
            return None;
        }
        let mut next = *state;
        next.events[client][other] = 0;
        let seen = &mut next.clients[client].before[other];
        if *seen == gone || self == Self::KnownByClient {
            *seen = 0;
        }
        self.believe_if_first(&mut next, client);
        Some(next)
    }

    /// Reads the claims before its own.
    fn poll(self, state: &State, client: usize) -> Option<State> {
        let me = state.clients[client];
        if self == Self::WithoutPoll || me.claim == 0 || me.believes {
            return None;
        }
        let mut next = *state;
        if state.claims[client] != me.claim {
            // The claim's session has ended, so the claim is not in the queue any more.
            (next.clients[client].claim, next.clients[client].before) = (0, [0; CLIENTS]);
            return Some(next);
        }
        next.clients[client].before =
            state.claims.map(|other| if other < me.claim { other } else { 0 });
        self.believe_if_first(&mut next, client);
        Some(next)
    }

    /// Makes a claim the first once all claims that it saw before it are gone. Its client has written it, and knows
    /// by the deadline that its session lives.
    fn believe_if_first(self, state: &mut State, client: usize) {
        let me = state.clients[client];
        let is_live = state.claims[client] == me.claim;
        if me.claim == 0 || me.before != [0; CLIENTS] || me.believes || !is_live {
            return;
        }
        let standing = state.claims.iter().filter(|claim| **claim != 0).count() as u8;
        let token = if self == Self::TokenByCount { standing } else { me.claim };
        state.clients[client].believes = true;
        state.grants.note(token);
    }

    /// Lets the deadline of a holder pass, before that of its session.
    fn late(self, state: &State, client: usize) -> Option<State> {
        let me = state.clients[client];
        if !me.believes || state.sessions_ended > 0 {
            return None;
        }
        let mut next = *state;
        next.clients[client].believes = self == Self::WithoutDeadline;
        next.sessions_ended = 1;
        // The server deletes all keys of the session.
        delete(&mut next, client);
        if self != Self::WithoutDeadline {
            next.clients[client].claim = 0;
        }
        Some(next)
    }
}

fn release(state: &State, client: usize) -> Option<State> {
    state.clients[client].believes.then(|| {
        let mut next = *state;
        (next.clients[client].believes, next.clients[client].claim) = (false, 0);
        delete(&mut next, client);
        next
    })
}

/// Ends the session of a waiter, once.
fn end_session(state: &State, client: usize) -> Option<State> {
    let waits = state.claims[client] != 0 && !state.clients[client].believes;
    (waits && state.sessions_ended == 0).then(|| {
        let mut next = *state;
        next.sessions_ended = 1;
        delete(&mut next, client);
        next
    })
}

/// Deletes a claim, and sends events to the waiting clients.
fn delete(state: &mut State, client: usize) {
    let gone = std::mem::take(&mut state.claims[client]);
    for (other, watcher) in state.clients.iter().enumerate() {
        if gone != 0 && watcher.before[client] != 0 {
            state.events[other][client] = gone;
        }
    }
}

/// Breaks a stream, once, and loses an event with it.
fn miss(state: &State, client: usize, other: usize) -> Option<State> {
    (!state.lost && state.events[client][other] != 0).then(|| {
        let mut next = *state;
        (next.lost, next.events[client][other]) = (true, 0);
        next
    })
}

#[test]
fn s3_claims_on_etcd_stand_in_every_order_of_events() {
    stands(&EtcdClaims::Protocol);
}

#[test]
fn s3_claims_that_are_kept_otherwise_are_found() {
    use EtcdClaims::*;
    [KnownByClient, WithoutPoll, WithoutDeadline, TokenByCount].iter().for_each(falls);
}
