//! Memory of a hold, counted by the allocator. The count covers the whole process, so this program has only one
//! test.

use std::alloc::System;

use lock_core::{LockClient, MemoryBackend};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HOLDS: usize = 10_000;

/// Includes the store's own record of a hold, which is in this process.
const AT_MOST: usize = 2_560;

/// R4: time stands still, so that a slow machine adds no renewals in flight to the count.
#[tokio::test(start_paused = true)]
async fn a_hold_takes_two_and_a_half_kib_at_most() {
    let locks = LockClient::new(MemoryBackend::new());
    drop(locks.acquire("first").await.expect("it is free"));
    let region = Region::new(ALLOCATOR);
    let mut held = Vec::with_capacity(HOLDS);
    for i in 0..HOLDS {
        held.push(locks.acquire(format!("stock-{i}")).await.expect("it is free"));
    }
    let change = region.change();
    let bytes = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    let each = bytes / held.len();
    println!("{each} bytes a hold");
    assert!(each <= AT_MOST, "a hold takes {each} bytes");
}
