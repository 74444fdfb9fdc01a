//! The hand-off within a client with reserved tokens, beside another client that waits.

use lock_testkit::explore::Model;

use crate::{Grants, falls, stands};

/// Number of tokens that a client reserves, and of its tasks.
const RESERVED: u8 = 2;
const TASKS: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Passing {
    Protocol,
    /// The server does not move its counter past the reserved tokens.
    ReservedTwice,
    /// A hold is passed on although its deadline has passed.
    PassedAfterTheDeadline,
    /// A later hold uses the rest of a reservation.
    KeptForTheNextHold,
    /// A hold is passed on for ever while others wait.
    NeverYielded,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    /// Number of its tasks that had the lock, and a flag that is set while one has it.
    served: u8,
    believes: bool,
    /// The tokens with which it may pass the hold on.
    left: u8,
    next: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    holder: Option<u8>,
    counter: u8,
    clients: [Client; 2],
    grants: Grants,
    expired: u8,
}

impl Model for Passing {
    type State = State;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let of = |client: u8| {
            let steps = [
                ("asks", self.ask(state, client)),
                ("reserves", self.reserve(state, client)),
                ("passes", self.pass(state, client)),
                ("releases", self.release(state, client)),
                ("is late", late(state, client)),
            ];
            let named = move |(step, next): (&str, Option<State>)| {
                next.map(|next| (format!("{client} {step}"), next))
            };
            steps.into_iter().filter_map(named)
        };
        let expiry = expire(state).map(|next| ("the hold expires".to_owned(), next));
        (0..2).flat_map(of).chain(expiry).collect()
    }

    fn wrong(&self, state: &State) -> Option<String> {
        let believe = state.clients.iter().filter(|client| client.believes).count();
        if believe > 1 {
            return Some("two hold".to_owned());
        }
        state.grants.is_out_of_order.then(|| "a token does not grow".to_owned())
    }

    fn is_done(&self, state: &State) -> bool {
        let (first, second) = (state.clients[0], state.clients[1]);
        first.served >= TASKS && second.served >= TASKS && state.holder.is_none()
    }
}

impl Passing {
    fn ask(self, state: &State, client: u8) -> Option<State> {
        let me = state.clients[usize::from(client)];
        if state.holder.is_some() || me.believes || me.served >= TASKS {
            return None;
        }
        let mut next = *state;
        next.holder = Some(client);
        next.counter += 1;
        let mine = &mut next.clients[usize::from(client)];
        (mine.believes, mine.served) = (true, me.served + 1);
        if self != Self::KeptForTheNextHold {
            mine.left = 0;
        }
        next.grants.note(next.counter);
        Some(next)
    }

    fn reserve(self, state: &State, client: u8) -> Option<State> {
        let me = state.clients[usize::from(client)];
        if state.holder != Some(client) || !me.believes || me.left > 0 {
            return None;
        }
        let mut next = *state;
        let mine = &mut next.clients[usize::from(client)];
        (mine.left, mine.next) = (RESERVED, state.counter + 1);
        if self != Self::ReservedTwice {
            next.counter += RESERVED;
        }
        Some(next)
    }

    fn pass(self, state: &State, client: u8) -> Option<State> {
        let me = state.clients[usize::from(client)];
        let holds = me.believes || self == Self::PassedAfterTheDeadline;
        let wants = me.served < TASKS || self == Self::NeverYielded;
        if !holds || !wants || me.left == 0 {
            return None;
        }
        let mut next = *state;
        let mine = &mut next.clients[usize::from(client)];
        mine.left -= u8::from(self != Self::NeverYielded);
        (mine.believes, mine.served, mine.next) = (true, (me.served + 1).min(TASKS), me.next + 1);
        if self == Self::NeverYielded {
            (mine.next, next.holder) = (me.next, Some(client));
            return Some(next);
        }
        next.grants.note(me.next);
        Some(next)
    }

    fn release(self, state: &State, client: u8) -> Option<State> {
        let me = state.clients[usize::from(client)];
        // The last task of a client that never yields keeps the hold.
        let keeps = self == Self::NeverYielded && me.left > 0;
        if !me.believes || keeps {
            return None;
        }
        let mut next = *state;
        next.clients[usize::from(client)].believes = false;
        next.holder = state.holder.filter(|holder| *holder != client);
        Some(next)
    }
}

/// Lets the deadline of a client pass, before the server's.
fn late(state: &State, client: u8) -> Option<State> {
    let mut next = *state;
    let me = &mut next.clients[usize::from(client)];
    let is_late = std::mem::replace(&mut me.believes, false) && state.expired == 0;
    next.expired = 1;
    is_late.then_some(next)
}

/// Ends a hold on the server whose client does not believe any more.
fn expire(state: &State) -> Option<State> {
    let is_over = !state.clients[usize::from(state.holder?)].believes;
    is_over.then_some(State { holder: None, ..*state })
}

#[test]
fn c26_holds_that_pass_within_a_client_keep_the_order_of_tokens() {
    stands(&Passing::Protocol);
}

#[test]
fn c26_passes_that_break_the_order_are_found() {
    use Passing::*;
    [ReservedTwice, PassedAfterTheDeadline, KeptForTheNextHold, NeverYielded]
        .iter()
        .for_each(falls);
}
