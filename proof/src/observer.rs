//! An observer of the election, beside the tasks that campaign (C40).

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockClient;
use tokio::time::sleep;

use crate::flaw::Flaw;
use crate::world::World;

/// Observes for ever. No term is shown after a greater one, and nothing is shown twice.
pub(crate) async fn observe(world: Arc<World>, locks: LockClient) {
    let (mut observer, mut greatest) = (locks.election("election").observe(), None);
    loop {
        if world.has(Flaw::ObserverForgets) {
            sleep(Duration::from_millis(100)).await;
            observer = locks.election("election").observe();
        }
        let term = match observer.next().await {
            Ok(leader) => leader.map(|leader| leader.term),
            Err(error) => {
                world.note(format_args!("the observer was refused: {error}"));
                sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        world.note(format_args!("the observer was shown {term:?}"));
        if term.is_some() && term < greatest {
            world.accuse("C40", format_args!("{term:?} was shown after {greatest:?}"));
        }
        greatest = greatest.max(term);
        if world.journal().shown.replace(term) == Some(term) {
            world.accuse("C40", format_args!("{term:?} was shown twice"));
        }
    }
}
