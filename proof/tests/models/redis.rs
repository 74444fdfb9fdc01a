//! The hand-over on Redis by a push to the next waiter, and a failover behind the address.

use lock_testkit::explore::Model;

use crate::{CLIENTS, Grants, falls, stands};

/// The way in which a waiter is served.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HandOver {
    /// The waiter subscribes, then queues. A poll finds grants with a lost push. A push that is older than its grant
    /// is ignored.
    Protocol,
    /// No poll: a grant with a lost push is never found.
    WithoutPoll,
    /// A push is believed at any time.
    LatePushesBelieved,
    /// A release deletes the key of any holder.
    ReleaseOfAnybody,
    /// A token is the last one plus one, without the clock.
    TokenWithoutClock,
    /// A hold stays for ever though its holder has died.
    WithoutExpiry,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Idle,
    Subscribed,
    Queued,
    Holds(u8),
    /// The deadline of the hold has passed, but the client still releases it.
    Late(u8),
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    /// The holder, and its token.
    holder: Option<(u8, u8)>,
    last: u8,
    /// The waiters, in order.
    queue: [Option<u8>; CLIENTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    primary: Server,
    /// State of the replica, which takes over if the primary dies.
    replica: Server,
    failed_over: bool,
    was_late: bool,
    /// True if a grant expired before its client learned of it.
    expired_unheard: bool,
    clients: [Phase; CLIENTS],
    /// The token of the push in flight to each client; 0 for none.
    pushes: [u8; CLIENTS],
    grants: Grants,
}

impl Model for HandOver {
    type State = State;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let mut all = Vec::new();
        for client in 0..CLIENTS {
            let mut add = |step: &str, next: Option<State>| {
                all.extend(next.map(|next| (format!("{client} {step}"), next)));
            };
            add("subscribes or asks", self.ask(state, client));
            add("hears a push", self.hear(state, client));
            add("loses a push", lose_push(state, client));
            add("is late", late(state, client));
            add("dies", die(state, client));
            add("releases", self.release(state, client));
        }
        let server = [("expiry", self.expire(state)), ("failover", fail_over(state))];
        all.extend(server.into_iter().filter_map(|(name, next)| Some((name.to_owned(), next?))));
        all.push(("replication".to_owned(), State { replica: state.primary, ..*state }));
        all
    }

    fn wrong(&self, state: &State) -> Option<String> {
        let holds = |phase: &&Phase| matches!(phase, Phase::Holds(_));
        // A failover that loses the last writes may let two clients in (P2).
        if state.clients.iter().filter(holds).count() > 1 && !state.failed_over {
            return Some("two hold".to_owned());
        }
        state.grants.is_out_of_order.then(|| "a token does not grow".to_owned())
    }

    fn is_done(&self, state: &State) -> bool {
        state.clients == [Phase::Done; CLIENTS] && state.primary.holder.is_none()
    }
}

impl HandOver {
    /// Subscribes, then asks for the lock, and asks again as a poll.
    fn ask(self, state: &State, client: usize) -> Option<State> {
        let mut next = *state;
        match state.clients[client] {
            Phase::Idle => next.clients[client] = Phase::Subscribed,
            Phase::Queued if self == Self::WithoutPoll => return None,
            Phase::Subscribed | Phase::Queued => self.serve(&mut next, client),
            _ => return None,
        }
        Some(next)
    }

    /// The server's answer to a request.
    fn serve(self, state: &mut State, client: usize) {
        let me = client as u8;
        match state.primary.holder {
            // C16: returns its own grant again.
            Some((holder, token)) if holder == me => {
                state.clients[client] = Phase::Holds(token);
                state.pushes[client] = 0;
            }
            None if state.primary.queue[0].is_none_or(|first| first == me) => {
                leave(&mut state.primary, me);
                let token = self.grant(state, me);
                state.clients[client] = Phase::Holds(token);
            }
            _ => {
                if !state.primary.queue.contains(&Some(me)) {
                    let free = state.primary.queue.iter().position(Option::is_none);
                    state.primary.queue[free.expect("a place for each")] = Some(me);
                }
                state.clients[client] = Phase::Queued;
            }
        }
    }

    fn grant(self, state: &mut State, client: u8) -> u8 {
        // The clock is ahead of all grants: it counts microseconds.
        let clock = if self == Self::TokenWithoutClock { 0 } else { state.grants.greatest + 1 };
        let token = (state.primary.last + 1).max(clock);
        (state.primary.holder, state.primary.last) = (Some((client, token)), token);
        state.grants.note(token);
        token
    }

    /// Grants a free lock to the first of the queue, and sends the push.
    fn hand_over(self, state: &mut State) {
        state.primary.holder = None;
        if let Some(first) = state.primary.queue[0] {
            leave(&mut state.primary, first);
            state.pushes[usize::from(first)] = self.grant(state, first);
        }
    }

    /// Ignores a push that came after its grant has expired: its deadline is over.
    fn hear(self, state: &State, client: usize) -> Option<State> {
        let token = state.pushes[client];
        if token == 0 {
            return None;
        }
        let mut next = *state;
        next.pushes[client] = 0;
        let stands = state.primary.holder == Some((client as u8, token));
        let is_believed = stands || self == Self::LatePushesBelieved;
        if is_believed && state.clients[client] == Phase::Queued {
            next.clients[client] = Phase::Holds(token);
        }
        Some(next)
    }

    fn release(self, state: &State, client: usize) -> Option<State> {
        let (Phase::Holds(token) | Phase::Late(token)) = state.clients[client] else { return None };
        let mut next = *state;
        next.clients[client] = Phase::Done;
        let own = state.primary.holder == Some((client as u8, token));
        if own || self == Self::ReleaseOfAnybody {
            self.hand_over(&mut next);
        }
        Some(next)
    }

    /// Ends a hold in which nobody believes: its holder never learned of it, or its deadline has passed.
    fn expire(self, state: &State) -> Option<State> {
        let (holder, token) = state.primary.holder?;
        let phase = state.clients[usize::from(holder)];
        let is_unheard = phase == Phase::Queued;
        let believes = phase == Phase::Holds(token) || (is_unheard && state.expired_unheard);
        if believes || self == Self::WithoutExpiry {
            return None;
        }
        let mut next = *state;
        next.expired_unheard |= is_unheard;
        self.hand_over(&mut next);
        Some(next)
    }
}

fn leave(server: &mut Server, client: u8) {
    let mut left = server.queue.into_iter().flatten().filter(|other| *other != client);
    server.queue = std::array::from_fn(|_| left.next());
}

fn lose_push(state: &State, client: usize) -> Option<State> {
    (state.pushes[client] != 0).then(|| {
        let mut next = *state;
        next.pushes[client] = 0;
        next
    })
}

/// Lets the deadline of a holder pass, once.
fn late(state: &State, client: usize) -> Option<State> {
    let Phase::Holds(token) = state.clients[client] else { return None };
    (!state.was_late).then(|| {
        let mut next = *state;
        (next.was_late, next.clients[client]) = (true, Phase::Late(token));
        next
    })
}

/// Lets a holder die after its deadline, without a release.
fn die(state: &State, client: usize) -> Option<State> {
    matches!(state.clients[client], Phase::Late(_)).then(|| {
        let mut next = *state;
        next.clients[client] = Phase::Done;
        next
    })
}

/// Lets the replica take over with its data, once. Pushes and subscriptions are lost.
fn fail_over(state: &State) -> Option<State> {
    (!state.failed_over).then_some(State {
        primary: state.replica,
        failed_over: true,
        pushes: [0; CLIENTS],
        ..*state
    })
}

#[test]
fn s2_a_hand_over_on_redis_stands_in_every_order_of_messages() {
    stands(&HandOver::Protocol);
}

#[test]
fn s2_hand_overs_that_go_otherwise_are_found() {
    use HandOver::*;
    let broken =
        [WithoutPoll, LatePushesBelieved, ReleaseOfAnybody, TokenWithoutClock, WithoutExpiry];
    broken.iter().for_each(falls);
}
