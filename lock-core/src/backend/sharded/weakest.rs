//! What several backends can do together.

use crate::backend::bounds::FALLBACK_POLL;
use crate::model::{Capabilities, Kinds, Order, Renewals, Wakeup};

/// What all of these can do (C30); `None` of none.
pub(super) fn weakest(all: impl IntoIterator<Item = Capabilities>) -> Option<Capabilities> {
    let common = all.into_iter().reduce(|one, other| Capabilities {
        order: if one.order == Order::Fifo { other.order } else { one.order },
        wakeup: slowest(one.wakeup, other.wakeup),
        renewals: if one.renewals == Renewals::Batched { other.renewals } else { one.renewals },
        ttl_granularity: one.ttl_granularity.max(other.ttl_granularity),
        reserves_tokens: one.reserves_tokens && other.reserves_tokens,
        kinds: fewest(one.kinds, other.kinds),
        runs_once: one.runs_once && other.runs_once,
        ..one
    })?;
    Some(Capabilities {
        backend: "shards",
        // C39: no request reaches the names of two stores.
        takes_several: false,
        on_store_loss: "each name has a store of its own among several: what that store does when it \
                        fails goes for its names, and the names of the others notice nothing",
        ..common
    })
}

/// What is left of that while names move: who waits for one that does is not queued.
pub(super) fn while_moving(all: Capabilities) -> Capabilities {
    let wakeup = slowest(all.wakeup, Wakeup::Poll(FALLBACK_POLL));
    Capabilities { order: Order::Unordered, wakeup, ..all }
}

fn slowest(one: Wakeup, other: Wakeup) -> Wakeup {
    match (one, other) {
        (Wakeup::Push, Wakeup::Push) => Wakeup::Push,
        (Wakeup::Push, Wakeup::Poll(longest)) | (Wakeup::Poll(longest), Wakeup::Push) => {
            Wakeup::Poll(longest)
        }
        (Wakeup::Poll(one), Wakeup::Poll(other)) => Wakeup::Poll(one.max(other)),
    }
}

fn fewest(one: Kinds, other: Kinds) -> Kinds {
    match (one, other) {
        (Kinds::Exclusive, _) | (_, Kinds::Exclusive) => Kinds::Exclusive,
        (Kinds::Shared, _) | (_, Kinds::Shared) => Kinds::Shared,
        (Kinds::Permits, Kinds::Permits) => Kinds::Permits,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::TokenDurability::CounterAndClock;

    const MS: Duration = Duration::from_millis(1);
    const RICH: Capabilities = Capabilities::new(
        "rich",
        Order::Fifo,
        Wakeup::Push,
        Renewals::Batched,
        CounterAndClock,
        MS,
        "",
    )
    .reserving_tokens()
    .with_kinds(Kinds::Permits)
    .running_once()
    .taking_several();
    const POOR: Capabilities = Capabilities::new(
        "poor",
        Order::Unordered,
        Wakeup::Poll(MS),
        Renewals::Single,
        CounterAndClock,
        Duration::from_secs(1),
        "",
    );

    /// What is told of these, by the name of the poor one.
    fn told<const N: usize>(all: [Capabilities; N]) -> Option<Capabilities> {
        let told = weakest(all)?;
        Some(Capabilities { backend: POOR.backend, on_store_loss: POOR.on_store_loss, ..told })
    }

    #[test]
    fn c30_the_weakest_of_all_is_told() {
        for mixed in [[RICH, POOR], [POOR, RICH]] {
            assert_eq!(told(mixed), Some(POOR));
        }
        let rich = Capabilities { backend: POOR.backend, takes_several: false, ..RICH };
        assert_eq!(told([RICH, RICH]), Some(rich));
        assert_eq!(told([]), None);
    }
}
