//! Steps of a server's wall clock.

use std::time::Duration;

use leasehold::LockClient;
use lock_testkit::WallClock;

use super::{client, fresh_name, held, released};

/// More than the TTL of the holds.
const STEP: Duration = Duration::from_secs(3600);

/// P1, P2: if the clock of the server at `url` is set back, no hold ends early, and tokens grow. If it is set forward,
/// holds end if `ends_holds`, and tokens grow.
pub(crate) async fn steps_of_the_servers_clock(
    url: &str,
    clock: Option<WallClock>,
    ends_holds: bool,
) {
    let Some(clock) = clock else { return };
    let (holder, other, name) = (client(url).await, client(url).await, fresh_name());
    let first = held(&holder, &name).await;
    clock.set_back(STEP);
    is_busy(&other, &name).await;
    let token = first.token();
    released(first).await;
    let second = held(&holder, &name).await;
    assert!(second.token() > token, "{} after {token}, with the clock set back", second.token());
    clock.set_forward(STEP);
    match ends_holds {
        true => {
            let third = held(&other, &name).await;
            assert!(second.is_held() && second.token() < third.token());
        }
        false => {
            is_busy(&other, &name).await;
            released(second).await;
        }
    }
}

async fn is_busy(client: &LockClient, name: &str) {
    let busy = client.try_acquire(name).await;
    assert!(matches!(busy, Ok(None)), "{busy:?}");
}
