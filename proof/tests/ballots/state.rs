//! The state of the clients and the nodes, and its changes.

pub(crate) const NODES: usize = 3;
pub(crate) const MAJORITY: usize = 2;
pub(crate) const CLIENTS: usize = 2;
/// Number of attempts of each client; one each if there is trouble.
pub(crate) const ATTEMPTS: [usize; CLIENTS] = [2, 1];
/// Latest time of a client's clock. Clocks show any time up to it.
pub(crate) const LATEST: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Vote,
    Back,
    Write,
}

/// A message of an attempt of a client.
pub(crate) type Letter = (Message, usize, usize);

/// Letters in flight, one bit each.
pub(crate) type Inbox = u16;

/// A claim: client, owner, ballot.
pub(crate) type Asker = (usize, u8, u8);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    /// Holder of the lock on this node.
    pub(crate) key: Option<Asker>,
    pub(crate) counter: u8,
    pub(crate) inbox: Inbox,
    /// Clients that count this node's vote, and clients that count its write.
    pub(crate) counted: [bool; CLIENTS],
    pub(crate) written: [bool; CLIENTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking,
    Writing,
    Holding,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// Owner of the next attempt. An attempt after a failed one has the same owner.
    pub(crate) owner: u8,
    /// Owner and ballot of each attempt so far, and the number of attempts.
    pub(crate) attempts: [(u8, u8); 2],
    pub(crate) made: usize,
    /// The greatest counter seen.
    pub(crate) seen: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS],
    /// The greatest token granted.
    pub(crate) granted: u8,
}

pub(crate) fn propose(state: &State, client: usize, ballot: u8) -> State {
    let mut next = *state;
    let me = &mut next.clients[client];
    let letter = (Message::Vote, client, me.made);
    me.attempts[me.made] = (me.owner, ballot);
    me.made += 1;
    (me.phase, me.seen) = (Phase::Asking, me.seen.max(ballot));
    next.nodes.iter_mut().for_each(|node| post(node, letter));
    next
}

pub(crate) fn begin_writing(state: &mut State, client: usize) {
    let me = &mut state.clients[client];
    (me.phase, me.token) = (Phase::Writing, me.seen + 1);
    let letter = (Message::Write, client, me.made - 1);
    for node in state.nodes.iter_mut().filter(|node| node.counted[client]) {
        post(node, letter);
    }
}

pub(crate) fn write(node: &mut Node, token: u8) -> (bool, u8) {
    node.counter = token;
    (true, token)
}

/// Ends the attempt or the hold, and tells all nodes.
pub(crate) fn give_back(state: &State, client: usize, is_over: bool) -> State {
    let mut next = ended(state, client, is_over);
    let letter = (Message::Back, client, next.clients[client].made - 1);
    next.nodes.iter_mut().for_each(|node| post(node, letter));
    next
}

/// Ends the attempt or the hold for its client. The next attempt has another owner only if a hold ended.
pub(crate) fn ended(state: &State, client: usize, is_over: bool) -> State {
    let mut next = *state;
    let me = &mut next.clients[client];
    me.phase = Phase::Idle;
    me.owner += u8::from(is_over);
    for node in &mut next.nodes {
        (node.counted[client], node.written[client]) = (false, false);
    }
    next
}

pub(crate) fn post(node: &mut Node, letter: Letter) {
    node.inbox |= bit(letter);
}

pub(crate) fn bit((message, client, attempt): Letter) -> Inbox {
    1 << (message as usize * 4 + client * 2 + attempt)
}

pub(crate) fn letters(inbox: Inbox) -> impl Iterator<Item = Letter> {
    let all = [Message::Vote, Message::Back, Message::Write].into_iter();
    let all =
        all.flat_map(|message| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(c, a)| (message, c, a)));
    all.filter(move |letter| inbox & bit(*letter) != 0)
}
