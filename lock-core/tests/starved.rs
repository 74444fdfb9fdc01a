//! A holder whose process gets no CPU, or whose runtime stands still.

#![allow(clippy::expect_used, clippy::panic)]

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, available_parallelism};
use std::time::Duration;

use lock_core::{Clock, LockClient, LockRequest, LostReason, MemoryBackend, SystemClock};
use lock_testkit::{Faulty, Operation};
use tokio::runtime::Builder;

/// Threads that keep all cores busy until this value is dropped.
struct Hogs {
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts two threads for each core.
    fn start() -> Self {
        let (enough, cores) = (Arc::new(AtomicBool::new(false)), available_parallelism());
        let hog = |_| {
            let enough = enough.clone();
            thread::spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        };
        let threads = (0..2 * cores.map_or(1, usize::from)).map(hog).collect();
        Self { enough, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|hog| hog.join().expect("no panic"));
    }
}

/// C7: a holder without CPU, whose runtime stands still, sees the end of its hold by the clock: no task and no timer has
/// run since the grant.
#[test]
fn c07_a_starved_holder_sees_its_end_at_once() {
    let store = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::new(store.clone());
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let request = LockRequest::new("a").ttl(Duration::from_secs(2));
    let guard = runtime.block_on(client.acquire(request)).expect("a free lock");
    let (deadline, signal) = (guard.deadline(), guard.lost_signal());
    thread::sleep(SystemClock.now().until(deadline).saturating_sub(Duration::from_millis(300)));
    let _hogs = Hogs::start();
    loop {
        // The clock is read before the guard: at the deadline, and ever after, the guard must not believe.
        let is_past = SystemClock.now().has_reached(deadline);
        let is_held = guard.is_held();
        assert!(!(is_past && is_held), "it believed past its deadline");
        if is_past {
            break;
        }
    }
    assert_eq!(signal.reason(), Some(LostReason::Expired));
    assert_eq!(store.calls(Operation::Extend), 0, "nothing but the clock ended it");
}
