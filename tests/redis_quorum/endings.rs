//! Holds that were released or evicted, and requests and servers that know nothing of it yet. No late request restores
//! such a hold, and no server with an old file counts for it.

use leasehold::core::backend::{Extension, Renewal};
use leasehold::{DistributedLock, LockClient, LockGuard, Ttl};
use lock_testkit::{LeaseExt, Mode, Proxy, RedisServer, Reply, Session, eventually};

use crate::set::Set;
use crate::support::{LIMIT, MINUTE, client, fresh_name, held, patient, released};

/// Records the requests to a server, to send one of them again: as one that comes late.
struct Recorder(Session);

impl Recorder {
    fn of(server: &RedisServer) -> Self {
        let mut session = server.session();
        assert_eq!(session.call(&["MONITOR"]).text(), "OK");
        Self(session)
    }

    /// Returns the next vote that restores the hold of this lock.
    fn restoring_vote(&mut self, name: &str) -> Vec<String> {
        loop {
            let line = self.0.receive().expect("a request");
            let words: Vec<String> =
                line.text().split('"').skip(1).step_by(2).map(str::to_owned).collect();
            let has = |word: &str| words.iter().any(|other| other == word);
            let restores = words.last().is_some_and(|last| last == "1");
            if has("EVALSHA") && has(name) && has("{}:floor") && restores {
                return words;
            }
        }
    }
}

fn send(server: &RedisServer, request: &[String]) -> Reply {
    server.cli(&request.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The data of one lock and of the voter on a server.
struct Data(Vec<(String, Reply)>);

impl Data {
    fn of(server: &RedisServer, name: &str) -> Self {
        let own = ["{}:run", "{}:high", "{}:floor"].map(str::to_owned);
        let of_lock = [format!("{{{name}}}:fence"), format!("{{{name}}}:ended"), name.to_owned()];
        let keys = of_lock.into_iter().chain(own);
        Self(keys.map(|key| (key.clone(), server.cli(&["GET", &key]))).collect())
    }

    /// Writes it to the server, which has no other data then.
    fn put_back(&self, server: &RedisServer) {
        server.cli(&["DEL", "{}:held"]);
        for (key, value) in &self.0 {
            match value {
                Reply::Nil => server.cli(&["DEL", key]),
                value if key.starts_with("{}:") => server.cli(&["SET", key, value.text()]),
                value => server.cli(&["SET", key, value.text(), "PX", "60000"]),
            };
        }
    }
}

/// Acquires a lock on all servers. No renewal is due for a third of a minute.
async fn held_by_all(set: &Set, client: &LockClient, name: &str) -> LockGuard {
    let guard = held(client, name).await;
    eventually("all have it", LIMIT, async || !set.held(name).contains(&false)).await;
    guard
}

/// Deletes the key on the last server, and lets a renewal restore it. Returns the vote.
async fn restored(set: &Set, guard: &LockGuard, name: &str) -> Vec<String> {
    let last = set.servers.last().expect("a server");
    let mut recorder = Recorder::of(last);
    last.cli(&["DEL", name]);
    guard.extend(MINUTE).await.expect("a majority has it");
    let vote = recorder.restoring_vote(name);
    eventually("it is back", LIMIT, async || !set.held(name).contains(&false)).await;
    vote
}

/// C11: the end of a hold may reach a server that has the hold, or lacks it, before a vote that restores the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_a_late_vote_restores_no_hold_that_has_ended() {
    let set = Set::of(3).await;
    let (client, last) = (set.client().await, &set.servers[2]);
    for (lacks_it, is_evicted) in [(false, false), (true, false), (false, true), (true, true)] {
        let name = fresh_name();
        let guard = held_by_all(&set, &client, &name).await;
        let vote = restored(&set, &guard, &name).await;
        if lacks_it {
            last.cli(&["DEL", &name]);
        }
        match is_evicted {
            true => {
                let ended = client.admin().evict(&*name).await.expect("an answer");
                assert_eq!(ended.len(), 1, "{ended:?}");
            }
            false => released(guard).await,
        }
        let ended = format!("{{{name}}}:ended");
        let knows = || last.cli(&["EXISTS", &ended]).integer() == 1;
        eventually("the end has come", LIMIT, async || knows()).await;
        let answer = send(last, &vote);
        assert_eq!(answer.array()[0].text(), "stale", "{lacks_it} {is_evicted}: {answer:?}");
        assert!(!set.held(&name).contains(&true), "{lacks_it} {is_evicted}: a hold came back");
    }
}

/// An eviction has reached one server of three when the holder renews on the other two. The renewal restores nothing on
/// the first server: with it, the hold would outlive the rest of the eviction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_an_eviction_under_way_is_not_undone_by_a_renewal() {
    let (set, name) = (Set::of(3).await, fresh_name());
    let client = set.client().await;
    let guard = held_by_all(&set, &client, &name).await;
    let [first, second, last] = &set.servers[..] else { panic!("three servers") };
    let before = [first, second].map(|server| (server, Data::of(server, &name)));
    client.admin().evict(&*name).await.expect("an answer");
    eventually("it has reached all", LIMIT, async || !set.held(&name).contains(&true)).await;
    before.iter().for_each(|(server, data)| data.put_back(server));
    let mut recorder = Recorder::of(last);
    guard.extend(MINUTE).await.expect("two of three have it");
    let vote = recorder.restoring_vote(&name);
    assert_eq!(send(last, &vote).array()[0].text(), "stale");
    assert_eq!(set.held(&name), [true, true, false]);
}

/// Two holds are renewed by one request. An eviction of the first has reached one server, which lacks the second too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_of_the_holds_of_one_request_an_evicted_one_is_not_restored() {
    let (set, names) = (Set::of(3).await, [fresh_name(), fresh_name()]);
    let (backend, client) = (set.backend().await, set.client().await);
    let mut renewals = Vec::new();
    for name in &names {
        let lease = backend.acquire_lease(&patient(name)).await.expect("a free lock");
        renewals.push(Renewal::new(&lease, Ttl::new(MINUTE).expect("a good TTL")));
        eventually("all have it", LIMIT, async || !set.held(name).contains(&false)).await;
    }
    let [evicted, goes_on] = &names;
    let before = set.servers[..2].iter().map(|server| (server, Data::of(server, evicted)));
    let before: Vec<_> = before.collect();
    client.admin().evict(&**evicted).await.expect("an answer");
    eventually("it has reached all", LIMIT, async || !set.held(evicted).contains(&true)).await;
    before.iter().for_each(|(server, data)| data.put_back(server));
    set.servers[2].cli(&["DEL", goes_on]);
    for answer in backend.extend(&renewals).await {
        assert!(matches!(answer, Ok(Extension::Extended(_))), "{answer:?}");
    }
    eventually("it is back", LIMIT, async || set.held(goes_on) == [true; 3]).await;
    assert_eq!(set.held(evicted), [true, true, false]);
}

/// An eviction reaches two servers of three. One of these restarts with a file from before, and the third has not heard
/// of the eviction, since the operator's process has ended. They are two of three, but the hold is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_an_eviction_is_not_undone_by_a_server_with_its_old_file() {
    let (mut set, name) = (Set::of(3).await, fresh_name());
    let holder = set.client().await;
    let guard = held_by_all(&set, &holder, &name).await;
    let file = Data::of(&set.servers[0], &name);
    let proxy = Proxy::start(set.servers[2].addr()).await;
    let [first, second] = [0, 1].map(|number| set.servers[number].addr());
    let operator = client(&format!("redis-quorum://{first},{second},{}", proxy.addr())).await;
    proxy.set(Mode::SwallowRequests);
    operator.admin().evict(&*name).await.expect("a majority answers");
    drop((operator, proxy));
    assert_eq!(set.held(&name), [false, false, true]);
    set.servers[0].restart().await;
    file.put_back(&set.servers[0]);
    // The client repeats this for longer than a second, so that the server is let in, and is out, meanwhile.
    let extended = guard.extend(MINUTE).await;
    assert!(extended.is_err(), "the evicted hold goes on");
    let is_out = || set.servers[0].cli(&["EXISTS", "{}:run", "{}:out", &name]).integer() == 3;
    assert!(is_out(), "its key from the file was seen");
}

/// C19: a server that did not hear of the eviction is told as soon as it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c19_an_eviction_reaches_a_server_that_was_silent() {
    let (set, name) = (Set::of(3).await, fresh_name());
    let holder = set.client().await;
    let _guard = held_by_all(&set, &holder, &name).await;
    let proxy = Proxy::start(set.servers[2].addr()).await;
    let [first, second] = [0, 1].map(|number| set.servers[number].addr());
    let operator = client(&format!("redis-quorum://{first},{second},{}", proxy.addr())).await;
    proxy.set(Mode::SwallowRequests);
    operator.admin().evict(&*name).await.expect("a majority answers");
    assert_eq!(set.held(&name), [false, false, true]);
    proxy.set(Mode::Pass);
    eventually("it is told", LIMIT, async || !set.held(&name).contains(&true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c29_an_eviction_ends_foreign_holds() {
    let (set, name) = (Set::of(3).await, fresh_name());
    let client = set.client().await;
    set.cli(&["SET", &name, "theirs", "PX", "60000"]);
    let ended = client.admin().evict(&*name).await.expect("an answer");
    assert!(ended.len() == 1 && ended[0].owner.is_none(), "{ended:?}");
    assert!(!set.held(&name).contains(&true));
}

/// A user with rights on the keys of a lock, and on nothing else, writes among the lock's waiters. A release publishes only to
/// channels of clients, since the releasing client may have more rights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_an_entry_of_a_stranger_among_the_waiters_is_not_acted_on() {
    let set = Set::three().await;
    let (client, name) = (set.client().await, fresh_name());
    let mut others = set.servers[0].session();
    others.call(&["SUBSCRIBE", "orders"]);
    let guard = held(&client, &name).await;
    let entry = "0123456789abcdef0123456789abcdef:orders";
    set.servers[0].cli(&["ZADD", &format!("{{{name}}}:waiting"), "1", entry]);
    released(guard).await;
    set.servers[0].cli(&["PUBLISH", "orders", "the first message"]);
    let told = others.receive().expect("a message");
    assert_eq!(told.array()[2].text(), "the first message");
}
