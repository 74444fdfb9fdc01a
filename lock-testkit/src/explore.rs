//! An exhaustive search of a small model of a protocol: every order of its steps.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// A protocol, as its states and the steps between them.
pub trait Model {
    /// All facts of one moment.
    type State: Clone + Debug + Eq + Hash;

    /// Returns the first state.
    fn start(&self) -> Self::State;

    /// Returns each possible next state, with the name of the step.
    fn steps(&self, state: &Self::State) -> Vec<(String, Self::State)>;

    /// Returns the fault of a state, if there is one.
    fn wrong(&self, state: &Self::State) -> Option<String>;

    /// Returns true if all participants have reached their goal. Each state must be able to reach such a state.
    fn is_done(&self, state: &Self::State) -> bool;
}

/// Result of a search.
#[derive(Clone, Copy, Debug)]
pub struct Explored {
    /// Number of states.
    pub states: usize,
    /// Number of steps from one state to another.
    pub steps: usize,
}

/// Visits all states, those of the fewest steps first.
///
/// # Errors
/// The shortest way to a wrong state, or to one from which no way leads to the goal.
pub fn explore<M: Model>(model: &M) -> Result<Explored, String> {
    let mut search = Search { found: Vec::new(), numbers: HashMap::new(), edges: Vec::new() };
    search.note(model.start(), None);
    let mut open = VecDeque::from([0]);
    while let Some(number) = open.pop_front() {
        let state = search.found[number].0.clone();
        if let Some(wrong) = model.wrong(&state) {
            return Err(format!("{wrong}: {}", search.way_to(number)));
        }
        for (step, next) in model.steps(&state).into_iter().filter(|(_, next)| *next != state) {
            let (next, is_new) = search.note(next, Some((number, step)));
            search.edges.push((number, next));
            if is_new {
                open.push_back(next);
            }
        }
    }
    match search.stuck(|state| model.is_done(state)) {
        Some(number) => Err(format!("nobody gets on: {}", search.way_to(number))),
        None => Ok(Explored { states: search.found.len(), steps: search.edges.len() }),
    }
}

/// The step by which a state was first found, with the number of the state before.
type Before = Option<(usize, String)>;

struct Search<S> {
    found: Vec<(S, Before)>,
    numbers: HashMap<S, usize>,
    edges: Vec<(usize, usize)>,
}

impl<S: Clone + Debug + Eq + Hash> Search<S> {
    /// Returns the number of a state, and true if it is new.
    fn note(&mut self, state: S, before: Before) -> (usize, bool) {
        if let Some(number) = self.numbers.get(&state) {
            return (*number, false);
        }
        let number = self.found.len();
        self.numbers.insert(state.clone(), number);
        self.found.push((state, before));
        (number, true)
    }

    fn way_to(&self, number: usize) -> String {
        let (mut steps, mut at) = (Vec::new(), number);
        while let Some((before, step)) = &self.found[at].1 {
            steps.push(step.as_str());
            at = *before;
        }
        steps.reverse();
        format!("{}; then {:?}", steps.join(", "), self.found[number].0)
    }

    /// Returns the first state from which no way leads to the goal.
    fn stuck(&self, is_done: impl Fn(&S) -> bool) -> Option<usize> {
        let mut before = vec![Vec::new(); self.found.len()];
        for (from, to) in &self.edges {
            before[*to].push(*from);
        }
        let mut gets_on: Vec<bool> = self.found.iter().map(|(state, _)| is_done(state)).collect();
        let mut open: Vec<usize> = (0..gets_on.len()).filter(|number| gets_on[*number]).collect();
        while let Some(number) = open.pop() {
            for from in &before[number] {
                if !std::mem::replace(&mut gets_on[*from], true) {
                    open.push(*from);
                }
            }
        }
        gets_on.iter().position(|gets_on| !gets_on)
    }
}
