//! The table on Postgres: transactions of several sessions, one of which may be terminated.

use lock_testkit::explore::Model;

use crate::{CLIENTS, Grants, falls, stands};

/// The way in which a grant is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Table {
    /// The row is locked first; the token is the row's plus one.
    Protocol,
    /// The row is read and written without a lock.
    WithoutRowLock,
    /// The token comes from a sequence, before the row is locked.
    TokenFromASequence,
    /// A release deletes the row, and the token with it.
    DeletesTheRow,
    /// A withdrawal leaves no mark: a later request acquires the lock.
    WithoutMark,
}

/// Progress of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Idle,
    /// The client has drawn a number from the sequence.
    Drawn(u8),
    /// The client's transaction is open, and has read the lock's row.
    Saw {
        is_free: bool,
        last: u8,
        drawn: u8,
    },
    Holds,
    /// The client gave up, and withdrew; its request may be in flight.
    GaveUp {
        is_late: bool,
    },
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    owner: Option<u8>,
    last: u8,
    sequence: u8,
    /// The session that has locked the row.
    locked: Option<u8>,
    sessions: [Phase; CLIENTS],
    /// The claims that the table knows as withdrawn.
    marks: [bool; CLIENTS],
    grants: Grants,
    terminated: bool,
}

impl Model for Table {
    type State = State;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State) -> Vec<(String, State)> {
        let mut all = Vec::new();
        for session in 0..CLIENTS {
            let mut add = |step: &str, next: Option<State>| {
                all.extend(next.map(|next| (format!("{session} {step}"), next)));
            };
            add("goes on", self.go_on(state, session));
            add("gives up", self.give_up(state, session));
            add("is terminated", terminate(state, session));
        }
        all
    }

    fn wrong(&self, state: &State) -> Option<String> {
        let holding = state.sessions.iter().filter(|phase| **phase == Phase::Holds).count();
        if holding > 1 {
            return Some("two hold".to_owned());
        }
        state.grants.is_out_of_order.then(|| "a token does not grow".to_owned())
    }

    fn is_done(&self, state: &State) -> bool {
        state.owner.is_none() && state.sessions.iter().all(|phase| *phase == Phase::Done)
    }
}

impl Table {
    fn go_on(self, state: &State, session: usize) -> Option<State> {
        match state.sessions[session] {
            Phase::Idle if self == Self::TokenFromASequence => {
                let mut next = *state;
                next.sequence += 1;
                next.sessions[session] = Phase::Drawn(next.sequence);
                Some(next)
            }
            Phase::Idle => self.read(state, session, 0),
            Phase::Drawn(number) => self.read(state, session, number),
            Phase::Saw { is_free, last, drawn } => {
                let token = if self == Self::TokenFromASequence { drawn } else { last + 1 };
                Some(self.commit(state, session, is_free.then_some(token)))
            }
            Phase::Holds => {
                let mut next = *state;
                next.owner = None;
                next.last = if self == Self::DeletesTheRow { 0 } else { state.last };
                next.sessions[session] = Phase::Done;
                Some(next)
            }
            Phase::GaveUp { is_late: true } => self.arrive_late(state, session),
            Phase::GaveUp { .. } => {
                let mut next = *state;
                next.sessions[session] = Phase::Done;
                Some(next)
            }
            Phase::Done => None,
        }
    }

    /// Begins the transaction: locks the row, and reads it.
    fn read(self, state: &State, session: usize, drawn: u8) -> Option<State> {
        let locks = self != Self::WithoutRowLock;
        if locks && state.locked.is_some() {
            return None;
        }
        let mut next = *state;
        next.locked = locks.then_some(session as u8);
        let (is_free, last) = (state.owner.is_none(), state.last);
        next.sessions[session] = Phase::Saw { is_free, last, drawn };
        Some(next)
    }

    /// Commits: a grant, or nothing, after which it asks again.
    fn commit(self, state: &State, session: usize, token: Option<u8>) -> State {
        let mut next = *state;
        next.locked = state.locked.filter(|by| usize::from(*by) != session);
        next.sessions[session] = Phase::Idle;
        if let Some(token) = token {
            (next.owner, next.last) = (Some(session as u8), token);
            next.sessions[session] = Phase::Holds;
            next.grants.note(token);
        }
        next
    }

    /// Lets a waiting client drop its request, which may be in flight, and withdraw the claim.
    fn give_up(self, state: &State, session: usize) -> Option<State> {
        (state.sessions[session] == Phase::Idle && session == 0).then(|| {
            let mut next = *state;
            next.marks[session] = self != Self::WithoutMark;
            next.sessions[session] = Phase::GaveUp { is_late: true };
            next
        })
    }

    /// Lets a request arrive after its withdrawal.
    fn arrive_late(self, state: &State, session: usize) -> Option<State> {
        let mut next = *state;
        next.sessions[session] = Phase::GaveUp { is_late: false };
        if !state.marks[session] && state.owner.is_none() && state.locked.is_none() {
            next.owner = Some(session as u8);
            next.last += 1;
        }
        Some(next)
    }
}

/// Terminates a session in its transaction, once: all of it is undone, and the client asks again.
fn terminate(state: &State, session: usize) -> Option<State> {
    let is_within = matches!(state.sessions[session], Phase::Saw { .. } | Phase::Drawn(_));
    (is_within && !state.terminated).then(|| {
        let mut next = *state;
        next.locked = state.locked.filter(|by| usize::from(*by) != session);
        (next.terminated, next.sessions[session]) = (true, Phase::Idle);
        next
    })
}

#[test]
fn s2_grants_in_a_table_stand_in_every_order_of_transactions() {
    stands(&Table::Protocol);
}

#[test]
fn s2_grants_that_are_written_otherwise_are_found() {
    use Table::*;
    [WithoutRowLock, TokenFromASequence, DeletesTheRow, WithoutMark].iter().for_each(falls);
}
