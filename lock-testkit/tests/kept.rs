//! Kept histories are judged again: by the project's checker, and each register by porcupine.
//!
//! The folder is `tests/kept`, or that of `LEASEHOLD_CHAOS_CHECK`.

#![cfg(all(unix, feature = "servers"))]
#![allow(clippy::expect_used, clippy::panic)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use lock_testkit::chaos::{Act, Kept, Operation, OperationOutcome as Outcome};
use porcupine_rs::{Model, check_operations};

/// A number behind a fence, as porcupine sees it.
#[derive(Clone)]
struct Register;

/// The greatest token that the fence has seen, and the number.
type State = (u64, u64);

impl Model for Register {
    type State = State;
    type Op = (Act, Option<Outcome>);
    type Metadata = ();

    fn init() -> State {
        (0, 0)
    }

    /// A store may refuse a read below the fence, as Redis does, or answer, as a file does.
    fn step(state: &State, (act, outcome): &Self::Op) -> (bool, State) {
        let (seen, value) = *state;
        match (*act, *outcome) {
            (Act::Read(token), Some(Outcome::Stale)) => (token < seen, *state),
            (Act::Read(_), Some(read)) => (read == Outcome::Value(value), *state),
            (Act::Advance(token) | Act::Write(token, _), Some(Outcome::Stale)) => {
                (token < seen, *state)
            }
            // Without an outcome, the fence may have refused the operation.
            (Act::Advance(token) | Act::Write(token, _), None) if token < seen => (true, *state),
            (Act::Advance(token), _) => (token >= seen, (token, value)),
            (Act::Write(token, number), _) => (token >= seen, (token, number)),
            (Act::Read(_), None) => (true, *state),
        }
    }
}

/// Returns the operation for porcupine; `None` for one that certainly had no effect. One without an outcome may take
/// effect at any time after its call.
fn operation(of: &Operation) -> Option<porcupine_rs::Operation<Register>> {
    let (return_time, outcome) = match of.returned {
        Some((_, Outcome::Never)) => return None,
        Some((at, outcome)) => (at as i64, Some(outcome)),
        None if matches!(of.act, Act::Read(_)) => return None,
        None => (i64::MAX, None),
    };
    Some(porcupine_rs::Operation {
        client_id: None,
        call_time: of.called as i64,
        return_time,
        op: (of.act, outcome),
        metadata: None,
    })
}

fn is_linearizable(operations: &[Operation]) -> bool {
    let operations: Vec<_> = operations.iter().filter_map(operation).collect();
    check_operations(&operations)
}

fn kept() -> Vec<(PathBuf, Kept)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    let folder = env::var_os("LEASEHOLD_CHAOS_CHECK").map_or(own, PathBuf::from);
    let files = fs::read_dir(&folder).expect("the folder can be read").flatten();
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "gz"));
    files.sort();
    assert!(!files.is_empty(), "no history in {}", folder.display());
    let open = |path: PathBuf| {
        let kept = Kept::open(&path);
        let kept = kept.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, kept)
    };
    files.into_iter().map(open).collect()
}

#[test]
fn p1_kept_histories_keep_the_contract() {
    for (path, kept) in kept() {
        println!("{}:", path.display());
        kept.judge().demand_none();
    }
}

#[test]
fn s1_porcupine_finds_the_registers_of_kept_histories_linearizable() {
    for (path, kept) in kept() {
        for (name, operations) in kept.registers() {
            println!("{} of {}: {} operations", name, path.display(), operations.len());
            assert!(is_linearizable(&operations), "{name} of {}", path.display());
        }
    }
}

/// Each checker sees one altered answer.
#[test]
fn s1_porcupine_finds_an_altered_read() {
    let (_, kept) = kept().swap_remove(0);
    for (name, mut operations) in kept.registers() {
        let reads = operations.iter_mut().filter_map(|operation| match &mut operation.returned {
            Some((_, Outcome::Value(value))) => Some(value),
            _ => None,
        });
        *reads.last().expect("a read") += 1;
        assert!(!is_linearizable(&operations), "{name}");
    }
}
