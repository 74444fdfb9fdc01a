//! Checks which public types cross threads, move after they were polled, and may be used after a panic. If a type
//! loses such a trait, this file does not compile.

use std::panic::{RefUnwindSafe, UnwindSafe};

use lock_core::backend::{
    Attempt, Claim, ClockLimit, Extension, Grant, NotificationTransport, Notifications, Release,
    Renewal, ReplyMonitor, RequestError, ServerTime, WaiterEvent, WaiterEvents, WaiterHandle,
    Withdrawals,
};
use lock_core::testing::FakeClock;
use lock_core::{
    BackendError, Capabilities, ClientOptions, Contention, DistributedLock, Drift, Fence,
    FenceError, FencingToken, Finding, Holder, InputKind, InvalidInput, Label, Lease, LockClient,
    LockError, LockGuard, LockName, LockRequest, LockState, LostReason, LostSignal, MemoryBackend,
    MemoryFence, Moment, MultiGuard, MultiRequest, OwnerId, Reentrance, SystemClock, Ttl, Wait,
};

/// Traits of every public type.
fn is_ordinary<T: Send + Sync + Unpin>() {}

/// Additional traits of plain data.
fn is_plain<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}

macro_rules! all {
    ($check:ident: $($type:ty),* $(,)?) => { $($check::<$type>();)* };
}

#[test]
fn public_types_are_send_sync_and_unpin() {
    all!(is_ordinary: ClientOptions, LockClient, LockError, LockGuard, LockRequest, LostSignal,
        MemoryBackend, MultiGuard, MultiRequest, WaiterEvent, WaiterEvents, WaiterHandle, Attempt, BackendError, FenceError, Box<dyn Fence>,
        Box<dyn DistributedLock>);
}

#[test]
fn plain_data_is_unwind_safe() {
    all!(is_plain: Capabilities, Claim, ClockLimit, Contention, Drift, Extension, FencingToken,
        Finding, Grant, Holder, InputKind, InvalidInput, Label, Lease, LockName, LockState, LostReason, MemoryFence, Moment, OwnerId,
        Reentrance, Release, Renewal, ReplyMonitor, RequestError<()>, ServerTime, SystemClock, Ttl, Wait,
        Withdrawals);
    all!(is_ordinary: FakeClock);
}

/// A type generic over a backend's own type depends on nothing else.
#[allow(dead_code)]
fn notifications_are_what_their_transport_is<T: NotificationTransport>() {
    is_ordinary::<Notifications<T>>();
}
