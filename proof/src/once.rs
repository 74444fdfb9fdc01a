//! A task that runs an occurrence once (C41, C42).

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::timeout;

use lock_core::OnceOutcome;

use crate::script::Step;
use crate::worker::Worker;
use crate::world::Run;

const HOUR: Duration = Duration::from_secs(3600);

impl Worker {
    pub(crate) async fn run_once(
        &self,
        label: &str,
        step: &Step,
        occurrence: u64,
        at_least: Option<Duration>,
    ) {
        let (world, asked, place) = (&self.world, self.world.now(), OnceLock::new());
        let once = self.host().locks.once("once").ttl(step.ttl).label(label).remember(HOUR);
        let once = once.occurrence(occurrence.to_string());
        let once = at_least.into_iter().fold(once, |once, span| once.at_least(span));
        let outcome = once
            .run(async |held| {
                let held = std::slice::from_ref(held);
                let belief = self.believe(label, asked, held);
                place.get_or_init(|| world.begin_run(label, occurrence, asked, at_least));
                let _ = timeout(step.held_for, held[0].lost()).await;
                self.end_beliefs(&belief, held);
            })
            .await;
        let (told, is_recorded) = match outcome {
            Ok(OnceOutcome::Ran(finished)) => {
                (format!("{:?}", finished.hold), finished.hold.is_ok())
            }
            Ok(other) => (format!("{other:?}"), false),
            Err(error) => (error.to_string(), false),
        };
        world.note(format_args!("{label} ran {occurrence}: {told}"));
        if let (true, Some(&place)) = (is_recorded, place.get()) {
            let now = world.now();
            world.journal().runs[place].recorded = Some(now);
        }
    }
}

impl crate::world::World {
    /// Notes that a run begins; returns its place in the journal.
    fn begin_run(
        &self,
        label: &str,
        occurrence: u64,
        asked: Duration,
        at_least: Option<Duration>,
    ) -> usize {
        let (label, began) = (label.to_owned(), self.now());
        let runs = &mut self.journal().runs;
        runs.push(Run { label, occurrence, asked, began, recorded: None, at_least });
        runs.len() - 1
    }
}
