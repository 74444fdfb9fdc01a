//! Kept histories: each run's events in one compressed file of JSON lines.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::history::History;
use super::journal::ENDING;
use super::linear::Operation;
use super::note::{Event, Note};
use super::report::Report;

/// The history of a run that [`Plan::keep`](super::Plan::keep) has kept.
#[derive(Debug)]
pub struct Kept {
    notes: Vec<Note>,
}

impl Kept {
    /// Reads a kept file.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is no event of a history.
    pub fn open(path: &Path) -> io::Result<Self> {
        let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
        let notes = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<io::Result<_>>();
        Ok(Self { notes: notes? })
    }

    /// Judges the history again, as at the end of its run. What only the run itself could see is not judged: locks that
    /// stay held (L1, R1), and the growth of resources (R1).
    pub fn judge(&self) -> Report {
        Report::of(&self.notes, Vec::new())
    }

    /// Returns the operations on each register, by the register's name, in the order of their calls.
    pub fn registers(&self) -> BTreeMap<String, Vec<Operation>> {
        History::of(&self.notes).operations
    }
}

/// Reads the journals of all processes of a run. A line that a kill has cut short is left out.
pub(super) fn gathered(folder: &Path) -> Vec<Note> {
    let mut notes = Vec::new();
    let files = fs::read_dir(folder).expect("the folder can be read").flatten();
    for path in files.map(|file| file.path()) {
        if path.extension().is_some_and(|ending| ending == ENDING) {
            let text = fs::read_to_string(&path).expect("the file can be read");
            notes.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
    }
    notes.sort_by_key(|note: &Note| note.at);
    notes
}

/// Writes the notes of a run to `STORE-SEED.jsonl.gz` in `folder`.
pub(super) fn keep(folder: &Path, notes: &[Note]) -> io::Result<()> {
    let head = notes.iter().find_map(|note| match &note.event {
        Event::Run(run) => Some(format!("{}-{}", run.store.replace(' ', "-"), run.seed)),
        _ => None,
    });
    let name = format!("{}.{ENDING}.gz", head.unwrap_or_default());
    fs::create_dir_all(folder)?;
    let file = BufWriter::new(File::create(folder.join(name))?);
    let mut file = GzEncoder::new(file, Compression::best());
    for note in notes {
        serde_json::to_writer(&mut file, note)?;
        file.write_all(b"\n")?;
    }
    file.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::clock::SECOND;

    /// Returns the history of a run on Redis.
    fn notes() -> Vec<Note> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/redis-1.jsonl.gz");
        Kept::open(&path).expect("a kept history").notes
    }

    /// Alters the events of a history that keeps the contract, and demands that its checker finds this clause broken.
    fn finds(clause: &str, alter: impl FnOnce(&mut Vec<Note>)) {
        let mut notes = notes();
        assert_eq!(Report::of(&notes, Vec::new()).violations(clause), 0);
        alter(&mut notes);
        let report = Report::of(&notes, Vec::new());
        assert!(report.violations(clause) > 0, "{clause} is not found: {report}");
    }

    fn call_with_a_bound(notes: &[Note]) -> (String, u64) {
        let found = notes.iter().find_map(|note| match note.event {
            Event::Call { call, bound, .. } if bound > 0 => Some((note.who.clone(), call)),
            _ => None,
        });
        found.expect("a call with a bound")
    }

    fn is_answer(note: &Note, (who, number): &(String, u64)) -> bool {
        let answers = matches!(note.event, Event::Granted { call, .. } | Event::Failed { call, .. } if call == *number);
        answers && note.who == *who
    }

    #[test]
    fn s2_a_token_below_an_earlier_one_is_found() {
        finds("S2", |notes| {
            let tokens = notes.iter_mut().rev().filter_map(|note| match &mut note.event {
                Event::Granted { token, .. } => Some(token),
                _ => None,
            });
            *tokens.into_iter().next().expect("a grant") = 1;
        });
    }

    #[test]
    fn c9_a_late_report_of_a_loss_is_found() {
        finds("C9", |notes| {
            let grant = notes.iter().find(|note| matches!(note.event, Event::Granted { .. }));
            let Note { at, who, event: Event::Granted { call, .. } } = grant.expect("a grant")
            else {
                unreachable!("a grant was found")
            };
            let event = Event::Lost { call: *call, reason: "Expired".to_owned(), late: 9 * SECOND };
            notes.push(Note { at: at + 10 * SECOND, who: who.clone(), event });
        });
    }

    #[test]
    fn c17_a_late_answer_is_found() {
        finds("C17", |notes| {
            let call = call_with_a_bound(notes);
            let answer = notes.iter_mut().find(|note| is_answer(note, &call));
            answer.expect("an answer").at += 100 * SECOND;
        });
    }

    #[test]
    fn c17_a_call_that_never_returns_is_found() {
        finds("C17", |notes| {
            let call = call_with_a_bound(notes);
            notes.retain(|note| !is_answer(note, &call));
        });
    }

    #[test]
    fn c42_a_recorded_occurrence_that_runs_again_is_found() {
        finds("C42", |notes| {
            notes.retain(|note| !matches!(note.event, Event::FaultBegins { .. }));
            let mut runs = notes.iter_mut().filter_map(|note| match &mut note.event {
                Event::Ran { occurrence, is_recorded: true, .. } => Some(occurrence),
                _ => None,
            });
            let first = runs.next().expect("a run").clone();
            *runs.last().expect("another run") = first;
        });
    }
}
