//! Turns of clients at an idle store.

use std::time::Duration;

use tokio::time::sleep;

use super::{client, turn};

/// Pause between two turns.
const PAUSE: Duration = Duration::from_millis(30);

const TURNS: usize = 30;

/// C22: a turn costs the same, whoever had the one before. `count` counts the work of the server at `url`.
pub(crate) async fn a_turn_costs_the_same_whoever_had_the_one_before(
    url: &str,
    count: impl AsyncFn() -> u64,
) {
    let clients = [client(url).await, client(url).await];
    let of = async |number: usize| {
        let before = count().await;
        for client in clients[..number].iter().cycle().take(TURNS) {
            sleep(PAUSE).await;
            turn(client, "a").await;
        }
        count().await - before
    };
    // The first turns open sessions.
    of(2).await;
    let (alone, both) = (of(1).await, of(2).await);
    assert!(both * 4 <= alone * 5, "{both} for {TURNS} turns of two, {alone} for those of one");
}
