//! The memory backend as the model of all others: random histories must have the same outcomes.

mod effect;
mod history;
mod member;
mod run;

use std::env;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tokio::time::{Instant, sleep};

use self::effect::Seen;
use self::history::{History, Step, histories};
use self::run::Run;
use super::harness::Harness;
use lock_core::DistributedLock;

/// Number of histories, unless this variable sets another.
const HISTORIES: usize = 24;
const VARIABLE: &str = "LEASEHOLD_HISTORIES";

/// Number of parallel histories, since each mostly waits.
const AT_ONCE: usize = 8;

/// Number of plays of a history, each with TTLs twice as long. Another play follows if the machine was so slow that a
/// hold may have expired before its renewal.
const TTLS: usize = 5;

/// Number of looks for a change that takes the server a moment, and the pause between them.
const LOOKS: usize = 150;
const PAUSE: Duration = Duration::from_millis(10);

/// Time for the search of a shorter failing history.
const SHORTENING: Duration = Duration::from_secs(10);

/// C10, C14, C16, C19, C22, C33 to C36, C38, C41: any history has the same outcomes as on the memory backend, which
/// is the specification. Holds are extended, released, released after a delay, evicted, and expire; waits are granted
/// and withdrawn.
///
/// On the memory backend time passes as the history says; here a step waits until the server reports the end of a
/// hold. The environment's `LEASEHOLD_HISTORIES` sets the number of random histories; the default is 24.
pub async fn every_history_agrees_with_the_model(harness: &dyn Harness) {
    let stores = Stores { here: [harness.connect().await, harness.connect().await], harness };
    let (strategy, mut runner) = (histories(&*stores.here[0]), TestRunner::default());
    let trees = (0..how_many()).map(|_| strategy.new_tree(&mut runner).expect("a history"));
    if let Some((tree, difference)) = stores.first_difference(trees).await {
        panic!("{}", stores.shortest(tree, difference).await);
    }
}

fn how_many() -> usize {
    let said = env::var(VARIABLE).ok();
    said.map_or(HISTORIES, |said| said.parse().expect("LEASEHOLD_HISTORIES is to be a number"))
}

/// The stores under test, as two hosts reach them.
struct Stores<'a> {
    here: [Arc<dyn DistributedLock>; 2],
    harness: &'a dyn Harness,
}

/// Reason why a history fails.
enum Failure {
    /// The machine was too slow to decide.
    TooSlow,
    Differs(String),
}

impl Stores<'_> {
    /// Plays all histories until one differs. The others are then dropped: a history that nobody polls may keep the
    /// store's only connection.
    async fn first_difference<T: ValueTree<Value = History>>(
        &self,
        trees: impl Iterator<Item = T>,
    ) -> Option<(T, String)> {
        let played = stream::iter(trees).map(|tree| self.play(tree)).buffer_unordered(AT_ONCE);
        std::pin::pin!(played.filter_map(async |difference| difference)).next().await
    }

    /// Plays a history; returns it with the difference, if there is one.
    async fn play<T: ValueTree<Value = History>>(&self, tree: T) -> Option<(T, String)> {
        let difference = self.difference(&tree.current()).await?;
        Some((tree, difference))
    }

    /// Returns the shortest failing history that is found: each removed step was not needed.
    async fn shortest(
        &self,
        mut tree: impl ValueTree<Value = History>,
        mut difference: String,
    ) -> String {
        let (end, mut shortens) = (Instant::now() + SHORTENING, tree.simplify());
        while shortens && Instant::now() < end {
            shortens = match self.difference(&tree.current()).await {
                Some(shorter) => {
                    difference = shorter;
                    tree.simplify()
                }
                None => tree.complicate(),
            };
        }
        difference
    }

    async fn difference(&self, history: &History) -> Option<String> {
        let mut ttl = self.harness.ttl();
        for _ in 0..TTLS {
            match self.compare(history, ttl).await {
                Ok(()) => return None,
                Err(Failure::Differs(difference)) => return Some(difference),
                Err(Failure::TooSlow) => ttl *= 2,
            }
        }
        panic!("no hold of {ttl:?} could be renewed in time, or waited for")
    }

    async fn compare(&self, history: &History, ttl: Duration) -> Result<(), Failure> {
        let mut model = Run::of_the_model(&history.kinds, ttl);
        let mut run = Run::of(self.here.clone(), &history.kinds, ttl, self.harness.limit());
        let verdict = agree(&mut model, &mut run, history).await;
        run.end().await;
        verdict
    }
}

/// Takes each step of the history on both stores.
async fn agree(model: &mut Run, run: &mut Run, history: &History) -> Result<(), Failure> {
    let mut before = Vec::new();
    for step in &history.steps {
        let expected = model.take(*step).await;
        let seen = until(run, *step, &expected).await;
        if run.was_too_slow {
            return Err(Failure::TooSlow);
        }
        if seen != expected {
            return Err(Failure::Differs(format!(
                "{step:?} came to {seen:?}, and is to come to {expected:?}, as on the memory backend, with \
                 the kinds {:?}, after {before:?}",
                history.kinds
            )));
        }
        before.push((*step, expected));
    }
    Ok(())
}

/// Takes a step, and looks again while the expected state may still come.
async fn until(run: &mut Run, step: Step, expected: &Seen) -> Seen {
    let mut seen = run.take(step).await;
    for _ in 0..LOOKS {
        run.number_readers_as(expected, &mut seen);
        if seen == *expected || run.was_too_slow || !run.may_change(step) {
            break;
        }
        sleep(PAUSE).await;
        run.look_again(step, &mut seen, expected).await;
    }
    run.number_readers_as(expected, &mut seen);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::{Kind, LockRequest};

    /// Lets two waiters of this kind in together, which have come in this order.
    async fn let_in(kind: Kind, [first, second]: [usize; 2]) -> (Run, Seen) {
        let kinds = [Kind::Exclusive, kind, kind, kind, kind];
        let mut run = Run::of_the_model(&kinds, Duration::from_secs(2));
        for step in [Step::Ask(0), Step::Wait(first), Step::Wait(second)] {
            run.take(step).await;
        }
        let seen = run.take(Step::Release(0)).await;
        (run, seen)
    }

    /// S2 orders no grants of which neither was told before the other.
    #[tokio::test]
    async fn readers_that_are_let_in_together_may_have_their_tokens_in_any_order() {
        let permit = LockRequest::new("a").permits(1, 2).claim().expect("a good claim").kind;
        for (kind, agrees) in [(Kind::Shared, true), (permit, false)] {
            let (_, expected) = let_in(kind, [4, 2]).await;
            let (mut run, mut seen) = let_in(kind, [2, 4]).await;
            assert_ne!(seen, expected);
            run.number_readers_as(&expected, &mut seen);
            assert_eq!(seen == expected, agrees, "{seen:?}");
        }
    }
}
