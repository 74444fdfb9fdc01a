//! A log that blocks delays nobody but the task that writes to it.

#![allow(clippy::expect_used, clippy::panic)]

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lock_core::{ClientOptions, LockClient, LockRequest, MemoryBackend};
use lock_testkit::{Fault, Faulty, Operation};
use tokio::runtime::{Builder, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const LIMIT: Duration = Duration::from_secs(30);

/// Blocks at the report of a loss until the test lets it go on.
struct SlowLog {
    reached: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Subscriber for SlowLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        if message.0 == "lost" {
            let _ = self.reached.send(());
            let _ = self.go_on.lock().expect("no panic").recv_timeout(LIMIT);
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// C20: a drop does not block, and an acquisition goes on, while a loss is written to a slow log.
#[test]
fn c20_a_slow_log_of_a_loss_delays_no_drop_and_no_acquisition() {
    let (reached, is_reached) = channel();
    let (let_go, go_on) = channel();
    let log = SlowLog { reached, go_on: Mutex::new(go_on) };
    tracing::subscriber::set_global_default(log).expect("it is the first");
    let (tasks, calls) = (runtime(), runtime());
    let options = ClientOptions::new().runtime(tasks.handle().clone());
    let store = Faulty::new(Arc::new(MemoryBackend::new()));
    let client = LockClient::with_options(store.clone(), options);
    let short = LockRequest::new("lost").ttl(Duration::from_secs(1));
    let _lost = calls.block_on(client.acquire(short)).expect("a free lock");
    let kept = calls.block_on(client.acquire("kept")).expect("a free lock");
    store.always(Operation::Extend, Fault::RequestLost);
    is_reached.recv_timeout(LIMIT).expect("a loss is reported");
    let (done, is_done) = channel();
    let beside = thread::spawn(move || {
        drop(kept);
        let next = calls.block_on(client.acquire("next"));
        let _ = done.send(());
        next.expect("a free lock")
    });
    let done = is_done.recv_timeout(LIMIT / 3);
    let _ = let_go.send(());
    done.expect("the log delayed it");
    drop(beside.join().expect("no panic"));
}
