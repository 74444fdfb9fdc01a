//! Tasks of two clients pass locks on, and give up at any poll.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use lock_core_shuttled::{LockClient, LockError, LockGuard, MultiRequest, Ttl};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng, thread_rng};

use super::Stage;

/// Number of tasks, on the two clients in turn.
const TASKS: usize = 4;

/// The last token of each lock, and its holders.
#[derive(Default)]
pub(super) struct Observed(Mutex<HashMap<String, (u64, usize)>>);

impl Observed {
    /// S2 and S3: enters alone, with a greater token.
    pub(super) fn enter(&self, guard: &LockGuard) {
        let (name, token) = (guard.name().to_string(), guard.token().get());
        let mut seen = self.0.lock().unwrap();
        let (last, holders) = seen.entry(name).or_default();
        assert_eq!(*holders, 0, "S3: {token} beside {last}");
        assert!(*last < token, "S2: {token} after {last}");
        (*last, *holders) = (token, 1);
    }

    pub(super) fn leave(&self, guard: &LockGuard) {
        let name = guard.name().to_string();
        let mut seen = self.0.lock().unwrap();
        seen.entry(name).or_default().1 = 0;
    }
}

pub(super) async fn play(stage: &Stage) {
    let seen = Arc::new(Observed::default());
    let turns = (0..TASKS).map(|number| {
        let leaves = thread_rng().r#gen::<bool>();
        let polls = leaves.then(|| thread_rng().gen_range(0..12));
        spawn(turn(stage.clients[number % 2].clone(), seen.clone(), polls))
    });
    let turns: Vec<_> = turns.collect();
    // Renewals become due, and no hold expires.
    for _ in 0..2 {
        stage.clock.advance(Ttl::default().as_duration() * 2 / 5);
        yield_now().await;
    }
    for turn in turns {
        turn.await.unwrap();
    }
}

async fn turn(locks: LockClient, seen: Arc<Observed>, polls: Option<u32>) {
    let acquired = match polls {
        Some(polls) => polled(polls, acquire(&locks)).await,
        None => Some(acquire(&locks).await),
    };
    let Some(guards) = acquired else { return };
    let guards = guards.unwrap();
    guards.iter().for_each(|guard| seen.enter(guard));
    yield_now().await;
    for guard in guards {
        assert!(guard.is_held(), "lost");
        seen.leave(&guard);
        match thread_rng().gen_range(0..4) {
            0 => drop(guard),
            1 => {
                let lease = guard.detach().unwrap();
                drop(locks.attach(lease).await.unwrap());
            }
            _ => guard.release().await.unwrap(),
        }
    }
}

async fn acquire(locks: &LockClient) -> Result<Vec<LockGuard>, LockError> {
    let name = if thread_rng().gen_range(0..4) > 0 { "a" } else { "b" };
    match thread_rng().gen_range(0..8) {
        0 => Ok(locks.acquire_all(MultiRequest::new(["a", "b"])).await?.into_guards()),
        1 => Ok(vec![locks.election(name).campaign().await?.into_guard()]),
        _ => Ok(vec![locks.acquire(name).await?]),
    }
}

/// Polls a future so often, and drops it.
async fn polled<F: Future>(mut polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}
