//! All notes of the processes of a run.

use std::collections::{BTreeMap, HashMap};

use super::linear::Operation;
use super::note::{Event, Note, Number, Run};

/// All notes of the processes of a run, put together.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) run: Run,
    pub(super) calls: Vec<Call>,
    pub(super) holds: Vec<Hold>,
    pub(super) losses: Vec<Loss>,
    /// Operations on the registers, by their names.
    pub(super) operations: BTreeMap<String, Vec<Operation>>,
    pub(super) faults: Vec<Struck>,
    /// The runs that succeeded and had an occurrence: the hold, and the occurrence.
    pub(super) runs: Vec<(usize, String)>,
    /// The stalls of each process, by its name.
    pub(super) stalls: HashMap<String, Vec<(u64, u64)>>,
    /// The last event of each process, by its name.
    pub(super) seen: HashMap<String, u64>,
    /// Start of the history.
    pub(super) start: u64,
}

/// A call that asked for a lock.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) who: String,
    pub(super) name: String,
    pub(super) what: String,
    /// Nanoseconds within which the call must return; 0 for no bound.
    pub(super) bound: u64,
    pub(super) called: u64,
    /// Time and text of its answer, if it returned.
    pub(super) answer: Option<(u64, String)>,
}

/// A granted lock.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) who: String,
    pub(super) name: String,
    pub(super) kind: String,
    /// Way to acquire it: several at once, in an election, or once; else its kind.
    pub(super) way: String,
    pub(super) slots: Vec<u16>,
    pub(super) token: u64,
    pub(super) called: u64,
    pub(super) granted: u64,
    /// The last moment at which its holder certainly believed in it.
    pub(super) believed: u64,
    /// The time at which its holder began to give it up.
    ending: u64,
    /// True if it is an earlier hold under a new guard.
    pub(super) is_attached: bool,
}

/// A reported loss of a lock.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) hold: usize,
    pub(super) told: u64,
    pub(super) reason: String,
    /// Delay after the deadline.
    pub(super) late: u64,
}

/// A fault.
#[derive(Clone, Debug)]
pub(super) struct Struck {
    pub(super) name: String,
    pub(super) whom: String,
    pub(super) loses: bool,
    pub(super) began: u64,
    pub(super) ended: u64,
}

/// The name of a process, and a number of its journal.
type Key = (String, Number);

/// A history that is being read.
#[derive(Default)]
struct Reader {
    history: History,
    calls: HashMap<Key, usize>,
    holds: HashMap<Key, usize>,
    operations: HashMap<Key, (String, usize)>,
}

impl History {
    /// Puts notes together, those of each process in their order.
    pub(super) fn of(notes: &[Note]) -> Self {
        let mut reader = Reader::default();
        for Note { at, who, event } in notes.iter().cloned() {
            let _ = reader.take(at, who, event);
        }
        let mut history = reader.history;
        history.faults.sort_by_key(|fault| fault.began);
        let moments = history.calls.iter().map(|call| call.called);
        history.start =
            moments.chain(history.faults.first().map(|fault| fault.began)).min().unwrap_or(0);
        history
    }

    /// Returns the name of each lock that was held.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.holds.iter().map(|hold| hold.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the holds of a lock in the order of their grants.
    pub(super) fn holds_of(&self, name: &str) -> Vec<&Hold> {
        let mut holds: Vec<_> = self.holds.iter().filter(|hold| hold.name == name).collect();
        holds.sort_by_key(|hold| hold.granted);
        holds
    }

    /// Returns the time for which a process, or the process with the networks of all workers, stalled within a span.
    pub(super) fn stalled(&self, who: &str, from: u64, to: u64) -> u64 {
        let stalls = [who, "run"].into_iter().filter_map(|who| self.stalls.get(who)).flatten();
        stalls.map(|(began, ended)| (*ended).min(to).saturating_sub((*began).max(from))).sum()
    }
}

impl Reader {
    /// Takes an event; one whose call is unknown proves nothing.
    fn take(&mut self, at: u64, who: String, event: Event) -> Option<()> {
        self.history.seen.insert(who.clone(), at);
        match event {
            Event::Run(run) => self.history.run = run,
            Event::Call { call, name, what, bound } => {
                self.calls.insert((who.clone(), call), self.history.calls.len());
                let answer = None;
                self.history.calls.push(Call { who, name, what, bound, called: at, answer });
            }
            Event::Granted { call, kind, token, slots } => {
                self.granted(at, (who, call), kind, token, slots)?;
            }
            Event::Failed { call, why, .. } => {
                let asked = &mut self.history.calls[*self.calls.get(&(who, call))?];
                // A run once that lost its lock fails after its grant.
                asked.answer.get_or_insert((at, why));
            }
            Event::Held { call, moment } => {
                let hold = self.hold((who, call))?;
                hold.believed = hold.believed.max(moment);
            }
            Event::Ending { call, .. } => self.hold((who, call))?.ending = at,
            Event::Ended { call, lasted: true, .. } => {
                let hold = self.hold((who, call))?;
                hold.believed = hold.believed.max(hold.ending);
            }
            Event::Lost { call, reason, late } => {
                let hold = *self.holds.get(&(who, call))?;
                self.history.losses.push(Loss { hold, told: at, reason, late });
            }
            Event::Ran { call, occurrence, is_recorded: true } => {
                let hold = *self.holds.get(&(who, call))?;
                self.history.runs.push((hold, occurrence));
            }
            Event::Dropped { .. }
            | Event::Extended { .. }
            | Event::Ended { .. }
            | Event::Ran { .. } => {}
            beside @ (Event::Operation { .. }
            | Event::Returned { .. }
            | Event::Stalled { .. }
            | Event::FaultBegins { .. }
            | Event::FaultEnds { .. }) => self.take_beside_calls(at, who, beside)?,
        }
        Some(())
    }

    /// Takes an event of a register, a stall or a fault.
    fn take_beside_calls(&mut self, at: u64, who: String, event: Event) -> Option<()> {
        match event {
            Event::Operation { operation, register, act } => {
                let all = self.history.operations.entry(register.clone()).or_default();
                self.operations.insert((who.clone(), operation), (register, all.len()));
                all.push(Operation { who, act, called: at, returned: None });
            }
            Event::Returned { operation, outcome } => {
                let (register, place) = self.operations.get(&(who, operation))?;
                let operation = &mut self.history.operations.get_mut(register)?[*place];
                operation.returned = outcome.map(|outcome| (at, outcome));
            }
            Event::Stalled { from } => {
                self.history.stalls.entry(who).or_default().push((from, at));
            }
            Event::FaultBegins { fault: name, whom, loses } => {
                let struck = Struck { name, whom, loses, began: at, ended: u64::MAX };
                self.history.faults.push(struck);
            }
            Event::FaultEnds { fault, whom } => {
                let mut faults = self.history.faults.iter_mut().rev();
                faults.find(|struck| struck.name == fault && struck.whom == whom)?.ended = at;
            }
            _ => {}
        }
        Some(())
    }

    fn granted(
        &mut self,
        at: u64,
        key: Key,
        kind: String,
        token: u64,
        slots: Vec<u16>,
    ) -> Option<()> {
        let asked = &mut self.history.calls[*self.calls.get(&key)?];
        asked.answer = Some((at, "granted".to_owned()));
        let way = match &*asked.what {
            "acquire" | "attach" => kind.clone(),
            what => what.to_owned(),
        };
        let (who, name, called) = (key.0.clone(), asked.name.clone(), asked.called);
        let (granted, believed, ending) = (at, at, at);
        let is_attached = asked.what == "attach";
        self.holds.insert(key, self.history.holds.len());
        self.history.holds.push(Hold {
            who,
            name,
            kind,
            way,
            slots,
            token,
            called,
            granted,
            believed,
            ending,
            is_attached,
        });
        Some(())
    }

    fn hold(&mut self, key: Key) -> Option<&mut Hold> {
        self.holds.get(&key).map(|hold| &mut self.history.holds[*hold])
    }
}
