//! S1 and S4: the registers.

use std::collections::HashMap;

use super::history::History;
use super::linear::{Act, Operation, OperationOutcome, explain};
use super::report::Violation;

pub(super) fn violations(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, operations) in &history.operations {
        if let Err(number) = explain(operations) {
            found
                .push(Violation::of_operation("S1", name, &operations[number], "nothing explains"));
        }
        found.extend(lost_update(name, operations));
    }
    found
}

/// Returns two acknowledged writes of the same number: the second overwrote the first.
fn lost_update(name: &str, operations: &[Operation]) -> Option<Violation> {
    let mut written: HashMap<u64, &Operation> = HashMap::new();
    operations.iter().find_map(|operation| match (operation.act, operation.returned) {
        (Act::Write(_, value), Some((_, OperationOutcome::Done))) => {
            let first = written.insert(value, operation)?;
            let text = format!("{} had written the same number before, and was lost:", first.who);
            Some(Violation::of_operation("S4", name, operation, &text))
        }
        _ => None,
    })
}
