//! A register behind a fence, which counts the writes of holders.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{Fence, FencingToken, MemoryFence};
use tokio::time::sleep;

use crate::flaw::Flaw;
use crate::world::World;

/// The resource that a lock guards.
#[derive(Debug, Default)]
pub(crate) struct Register {
    fence: MemoryFence,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    value: u64,
    /// Number of acknowledged increments.
    acknowledged: u64,
    /// Token of the last write.
    written: Option<FencingToken>,
}

impl Register {
    /// Increments the register as a holder does: advances the fence, then reads, then writes (C25). The write is
    /// refused if a later holder was there.
    pub(crate) async fn increment(&self, world: &World, token: FencingToken, slow: Duration) {
        sleep(world.span(slow)).await;
        if self.fence.advance(token).now_or_never().is_none_or(|advanced| advanced.is_err()) {
            return;
        }
        sleep(world.span(slow)).await;
        let read = self.state().value;
        sleep(world.span(slow)).await;
        let is_stale = self.fence.check(token).now_or_never().is_none_or(|fresh| fresh.is_err());
        if is_stale && !world.has(Flaw::NoFence) {
            return;
        }
        let mut state = self.state();
        // S1: the accepted writes are in the order of their tokens.
        if state.written > Some(token) {
            world.accuse("S1", format_args!("{token} wrote after {:?}", state.written));
        }
        let acknowledged = state.acknowledged + 1;
        *state = State { value: read + 1, acknowledged, written: Some(token) };
    }

    /// S4: no acknowledged increment is lost.
    pub(crate) fn judge(&self, world: &World) {
        let State { value, acknowledged, .. } = *self.state();
        if value != acknowledged {
            world.accuse("S4", format_args!("{acknowledged} increments came to {value}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
