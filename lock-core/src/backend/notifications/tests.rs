use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Counts the open connections and their other users.
#[derive(Clone, Default)]
struct Silent(Arc<AtomicUsize>, Arc<AtomicUsize>);

struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl NotificationTransport for Silent {
    type Connection = OpenConnection;
    type Address = ();

    async fn connect(&self) -> Result<(OpenConnection, ()), BackendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok((OpenConnection(self.0.clone()), ()))
    }

    async fn recv(&self, _connection: &mut OpenConnection) -> Option<String> {
        pending().await
    }

    async fn ping(&self, _connection: &mut OpenConnection) -> bool {
        true
    }

    fn is_in_use(&self) -> bool {
        self.1.load(Ordering::Relaxed) > 0
    }
}

#[tokio::test(start_paused = true)]
async fn c26_the_connection_is_closed_when_nobody_waits() {
    let transport = Silent::default();
    let open = || transport.0.load(Ordering::Relaxed);
    let notifications = Notifications::new(transport.clone());
    for _ in 0..2 {
        let (waiter, receiver) = WaiterHandle::channel();
        assert!(notifications.register(OwnerId::random(), &waiter).is_none());
        notifications.open().await.expect("not refused");
        assert!(notifications.register(OwnerId::random(), &waiter).is_some());
        sleep(Duration::from_secs(60)).await;
        assert_eq!(open(), 1, "closed under a waiter");
        drop(receiver);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(open(), 0, "open for nobody");
    }
}

#[tokio::test(start_paused = true)]
async fn c26_the_connection_stays_open_while_it_is_in_use() {
    let transport = Silent::default();
    let Silent(open, others) = &transport;
    let notifications = Notifications::new(transport.clone());
    others.store(1, Ordering::Relaxed);
    notifications.open().await.expect("not refused");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(open.load(Ordering::Relaxed), 1, "closed under one who hears");
    others.store(0, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(open.load(Ordering::Relaxed), 0, "open for nobody");
}

/// Counts the tries to connect.
#[derive(Clone, Default)]
struct Unreachable(Arc<AtomicUsize>);

#[async_trait]
impl NotificationTransport for Unreachable {
    type Connection = ();
    type Address = ();

    async fn connect(&self) -> Result<((), ()), BackendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        pending().await
    }

    async fn recv(&self, _connection: &mut ()) -> Option<String> {
        pending().await
    }

    async fn ping(&self, _connection: &mut ()) -> bool {
        true
    }
}

/// Refuses each connection, as a server does that has too many clients; counts them.
#[derive(Clone, Default)]
struct Full(Arc<AtomicUsize>);

#[async_trait]
impl NotificationTransport for Full {
    type Connection = ();
    type Address = ();

    async fn connect(&self) -> Result<((), ()), BackendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(BackendError::no_answer("test", Duration::ZERO))
    }

    async fn recv(&self, _connection: &mut ()) -> Option<String> {
        pending().await
    }

    async fn ping(&self, _connection: &mut ()) -> bool {
        true
    }

    fn is_in_use(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn c26_a_server_that_refuses_connections_is_asked_ever_more_seldom() {
    let transport = Full::default();
    let notifications = Notifications::new(transport.clone());
    notifications.open().await.expect("not refused for ever");
    sleep(Duration::from_secs(60)).await;
    let tries = transport.0.load(Ordering::Relaxed);
    assert!((10..20).contains(&tries), "{tries} tries");
}

/// The next waiter may be on a runtime that can connect.
#[tokio::test(start_paused = true)]
async fn c26_a_connection_that_cannot_be_opened_is_left_to_the_next_waiter() {
    let transport = Unreachable::default();
    let tries = || transport.0.load(Ordering::Relaxed);
    let notifications = Notifications::new(transport.clone());
    notifications.open().await.expect("not refused");
    sleep(Duration::from_secs(60)).await;
    assert!(tries() > 1 && !notifications.is_running(), "{} tries", tries());
    let before = tries();
    notifications.open().await.expect("not refused");
    assert_eq!(tries(), before + 1);
}

#[test]
fn a_message_is_read_as_it_is_written() {
    let owner = OwnerId::random();
    let message = format!("{}:7:3000:1795251431457582", owner.expose());
    let (told, grant) = parse(&message).expect("a grant");
    assert_eq!((told, grant.token.get(), grant.ttl), (owner, 7, Duration::from_secs(3)));
    assert_eq!(grant.at, Some(ServerTime(Duration::from_micros(1_795_251_431_457_582))));
    assert_eq!(grant.slots, Slots::NONE);
    let (_, permit) = parse(&format!("{message}:0,2")).expect("a grant");
    assert_eq!(permit.slots, Slots::new([0, 2]));
    assert!(parse(&format!("{message}:0,")).is_none());
    for bad in ["", ":::", "x:7:3000:1", &message[..40], &format!("{}:0:1:1", owner.expose())] {
        assert!(parse(bad).is_none(), "{bad}");
    }
}

/// Each message is read as a grant for the owner that it starts with, or as none.
#[test]
fn fuzz_messages() {
    const WORDS: &[&str] = &[
        "0123456789abcdef0123456789abcdef",
        ":",
        ":7:",
        "1000",
        ":1795251431457582",
        ":0,2",
        ",",
        "-1",
    ];
    lock_fuzz::check(|parts| {
        let text = lock_fuzz::text(WORDS, parts);
        if let Some((owner, grant)) = parse(&text) {
            assert!(text.starts_with(&owner.expose()) && grant.at.is_some(), "{text:?}");
        }
    });
}
