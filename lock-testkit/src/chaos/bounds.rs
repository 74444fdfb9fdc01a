//! C17: calls return in time. C9: losses are reported in time.

use super::clock::MILLI;
use super::history::History;
use super::report::Violation;

/// Time that a busy machine may add, beside its recorded stalls.
const SLACK: u64 = 1000 * MILLI;

pub(super) fn violations(history: &History) -> Vec<Violation> {
    late_calls(history).chain(late_losses(history)).collect()
}

/// Returns the calls whose answer is late, or did not come while their process went on.
fn late_calls(history: &History) -> impl Iterator<Item = Violation> {
    let bounded = history.calls.iter().filter(|call| call.bound > 0);
    bounded.filter_map(|call| {
        let (answered, answer) = match &call.answer {
            Some((at, answer)) => (*at, &**answer),
            None => (*history.seen.get(&call.who)?, "nothing"),
        };
        let took = answered - call.called;
        let bound = call.bound + 100 * MILLI;
        let stalled = history.stalled(&call.who, call.called, answered);
        (took > bound + stalled + SLACK).then(|| Violation {
            clause: "C17",
            name: call.name.clone(),
            from: call.called,
            to: answered,
            text: format!(
                "{} asked for it ({}), and was answered `{answer}` after {} ms: the bound is {} ms, and it stood \
                 still for {} ms",
                call.who, call.what, took / MILLI, bound / MILLI, stalled / MILLI
            ),
        })
    })
}

fn late_losses(history: &History) -> impl Iterator<Item = Violation> {
    history.losses.iter().filter_map(|loss| {
        let (hold, deadline) = (&history.holds[loss.hold], loss.told - loss.late);
        let stalled = history.stalled(&hold.who, deadline, loss.told);
        (loss.late > 50 * MILLI + stalled + SLACK).then(|| Violation {
            clause: "C9",
            name: hold.name.clone(),
            from: deadline,
            to: loss.told,
            text: format!(
                "{} was told that token {} is lost ({}) {} ms after its deadline, and stood still for {} ms of it",
                hold.who, hold.token, loss.reason, loss.late / MILLI, stalled / MILLI
            ),
        })
    })
}
