//! All notes of the processes of a run.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use super::linear::{Act, Operation, OperationOutcome};

/// All notes of the processes of a run, put together.
#[derive(Debug, Default)]
pub(super) struct History {
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
    pub(super) slots: Vec<String>,
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

/// The name of a process, and the number of a call or an operation in its journal.
type Key = (String, u64);

/// A history that is being read.
#[derive(Default)]
struct Reader {
    history: History,
    calls: HashMap<Key, usize>,
    holds: HashMap<Key, usize>,
    operations: HashMap<Key, (String, usize)>,
}

impl History {
    /// Reads all notes in a folder.
    pub(super) fn read(folder: &Path) -> Self {
        let mut reader = Reader::default();
        let files = fs::read_dir(folder).expect("the folder can be read").flatten();
        for path in files.map(|file| file.path()) {
            if path.extension().is_some_and(|ending| ending == "history") {
                let text = fs::read_to_string(&path).expect("the file can be read");
                text.lines().for_each(|line| reader.take(line));
            }
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
    /// Skips a line that a kill has cut short.
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, who, event @ ..] = &words[..] else { return };
        if let Ok(at) = at.parse() {
            let _ = self.event(at, who, event);
        }
    }

    fn event(&mut self, at: u64, who: &str, event: &[&str]) -> Option<()> {
        let key = |number: &str| Some((who.to_owned(), number.parse().ok()?));
        let owned = |words: &str| words.to_owned();
        match event {
            ["call", call, name, what, bound] => {
                self.calls.insert(key(call)?, self.history.calls.len());
                let (who, name, what) = (owned(who), owned(name), owned(what));
                let (bound, answer) = (bound.parse().ok()?, None);
                self.history.calls.push(Call { who, name, what, bound, called: at, answer });
            }
            ["grant", call, kind, token, slots] => {
                self.granted(at, key(call)?, kind, token, slots)?
            }
            ["failed", call, why] => {
                let asked = &mut self.history.calls[*self.calls.get(&key(call)?)?];
                // A run once that lost its lock fails after its grant.
                asked.answer.get_or_insert((at, owned(why)));
            }
            ["held", call, moment] => {
                let hold = self.hold(key(call)?)?;
                hold.believed = hold.believed.max(moment.parse().ok()?);
            }
            ["ending", call, _] => self.hold(key(call)?)?.ending = at,
            // C47: it lasted until its release was called.
            ["ended", call, "ok" | "all-ok" | "detached"] => {
                let hold = self.hold(key(call)?)?;
                hold.believed = hold.believed.max(hold.ending);
            }
            ["lost", call, reason, late] => {
                let (hold, late) = (*self.holds.get(&key(call)?)?, late.parse().ok()?);
                self.history.losses.push(Loss { hold, told: at, reason: owned(reason), late });
            }
            ["ran", call, occurrence, "ok"] => {
                let hold = *self.holds.get(&key(call)?)?;
                self.history.runs.push((hold, owned(occurrence)));
            }
            ["operation", number, of @ ..] => self.operation(at, key(number)?, of)?,
            ["returned", number, outcome, value] => {
                self.returned(at, &key(number)?, outcome, value)?;
            }
            ["stall", from] => {
                let stalls = self.history.stalls.entry(owned(who)).or_default();
                stalls.push((from.parse().ok()?, at));
            }
            _ => self.fault(at, event)?,
        }
        Some(())
    }

    fn granted(&mut self, at: u64, key: Key, kind: &str, token: &str, slots: &str) -> Option<()> {
        let asked = &mut self.history.calls[*self.calls.get(&key)?];
        asked.answer = Some((at, "granted".to_owned()));
        let way = match &*asked.what {
            "acquire" | "attach" => kind,
            what => what,
        };
        let slots = slots.split(',').filter(|slot| !slot.is_empty()).map(str::to_owned).collect();
        let hold = Hold {
            who: key.0.clone(),
            name: asked.name.clone(),
            kind: kind.to_owned(),
            way: way.to_owned(),
            slots,
            token: token.parse().ok()?,
            called: asked.called,
            granted: at,
            believed: at,
            ending: at,
            is_attached: asked.what == "attach",
        };
        self.holds.insert(key, self.history.holds.len());
        self.history.holds.push(hold);
        Some(())
    }

    /// Reads the call of an operation on a register.
    fn operation(&mut self, at: u64, key: Key, of: &[&str]) -> Option<()> {
        let [name, what, token, value] = of else { return None };
        let act = match *what {
            "advance" => Act::Advance(token.parse().ok()?),
            "read" => Act::Read(token.parse().ok()?),
            _ => Act::Write(token.parse().ok()?, value.parse().ok()?),
        };
        let all = self.history.operations.entry((*name).to_owned()).or_default();
        all.push(Operation { who: key.0.clone(), act, called: at, returned: None });
        self.operations.insert(key, ((*name).to_owned(), all.len() - 1));
        Some(())
    }

    /// Reads the end of an operation on a register.
    fn returned(&mut self, at: u64, key: &Key, outcome: &str, value: &str) -> Option<()> {
        let (name, place) = self.operations.get(key)?;
        let operation = &mut self.history.operations.get_mut(name)?[*place];
        operation.returned = match (outcome, operation.act) {
            ("ok", Act::Read(_)) => Some((at, OperationOutcome::Value(value.parse().ok()?))),
            ("ok", _) => Some((at, OperationOutcome::Done)),
            ("stale", _) => Some((at, OperationOutcome::Stale)),
            ("never", _) => Some((at, OperationOutcome::Never)),
            _ => None,
        };
        Some(())
    }

    /// Reads the start or the end of a fault. The name of a store may have spaces.
    fn fault(&mut self, at: u64, event: &[&str]) -> Option<()> {
        match event {
            ["begins", name, whom @ .., loses] => {
                let (name, whom, loses) = ((*name).to_owned(), whom.join(" "), *loses == "true");
                let struck = Struck { name, whom, loses, began: at, ended: u64::MAX };
                self.history.faults.push(struck);
            }
            ["ends", name, whom @ ..] => {
                let (whom, mut faults) = (whom.join(" "), self.history.faults.iter_mut().rev());
                faults.find(|fault| fault.name == *name && fault.whom == whom)?.ended = at;
            }
            _ => {}
        }
        Some(())
    }

    fn hold(&mut self, key: Key) -> Option<&mut Hold> {
        self.holds.get(&key).map(|hold| &mut self.history.holds[*hold])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_store_whose_name_has_spaces_is_read() {
        let mut reader = Reader::default();
        reader.take("10 run begins server-stopped a store of mine true");
        reader.take("20 run ends server-stopped a store of mine");
        let [fault] = &reader.history.faults[..] else { panic!("one fault struck") };
        assert_eq!((&*fault.name, &*fault.whom), ("server-stopped", "a store of mine"));
        assert_eq!((fault.loses, fault.began, fault.ended), (true, 10, 20));
    }
}
