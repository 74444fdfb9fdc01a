//! Tests of the faulty network, before a server that sends back its input.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_testkit::{Mode, Proxy, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);
/// Many times the duration of a loopback round trip. Only the checks that nothing arrives wait for this long.
const A_WHILE: Duration = Duration::from_millis(100);

/// Bytes that the server has received on all connections.
type Received = Arc<Mutex<Vec<u8>>>;

async fn start() -> (Proxy, Received) {
    let (address, received) = start_echo().await;
    (Proxy::start(address).await, received)
}

async fn start_echo() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let received = Received::default();
    let record = received.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream, record.clone()));
        }
    });
    (address, received)
}

async fn echo(mut stream: TcpStream, received: Received) {
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        received.lock().expect("not poisoned").extend(&chunk[..read]);
        if stream.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.addr()).await.expect("a connection")
}

/// Opens a connection that has carried data both ways.
async fn connected(proxy: &Proxy) -> TcpStream {
    let mut stream = connect(proxy).await;
    assert_eq!(exchange(&mut stream, "hi").await, "hi");
    stream
}

async fn exchange(stream: &mut TcpStream, text: &str) -> String {
    send(stream, text).await;
    receive(stream, text.len()).await
}

async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("sent");
}

async fn receive(stream: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    let read = timeout(SOON, stream.read_exact(&mut bytes)).await;
    read.expect("within its bound").expect("not closed");
    String::from_utf8(bytes).expect("text")
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(A_WHILE, stream.read_u8()).await.is_err()
}

async fn assert_closed(stream: &mut TcpStream) {
    let read = timeout(SOON, stream.read_u8()).await;
    read.expect("closed within its bound").expect_err("closed");
}

async fn assert_received(received: &Received, text: &str) {
    eventually("the server receives", SOON, async || {
        *received.lock().expect("not poisoned") == text.as_bytes()
    })
    .await;
}

#[tokio::test]
async fn passes_both_ways_and_counts() {
    let (proxy, received) = start().await;
    let mut stream = connect(&proxy).await;
    let long = "x".repeat(300_000);
    let (mut from, mut to) = stream.split();
    let mut back = vec![0; long.len()];
    let (sent, read) = tokio::join!(to.write_all(long.as_bytes()), from.read_exact(&mut back));
    sent.expect("sent");
    read.expect("read");
    assert_eq!(back, long.as_bytes());
    assert_received(&received, &long).await;
    assert_eq!(proxy.request_bytes(), 300_000);
    assert_eq!(proxy.open_connections(), 1);
}

#[tokio::test]
async fn hands_an_end_on() {
    let (proxy, _) = start().await;
    let mut stream = connected(&proxy).await;
    stream.shutdown().await.expect("closed on our side");
    assert_closed(&mut stream).await;
    eventually("the connection is forgotten", SOON, async || proxy.open_connections() == 0).await;
}

#[tokio::test]
async fn swallows_replies_and_cuts_when_it_would_pass_again() {
    let (proxy, received) = start().await;
    let mut stream = connected(&proxy).await;
    proxy.set(Mode::SwallowReplies);
    send(&mut stream, "lost").await;
    assert_received(&received, "hilost").await;
    assert!(is_silent(&mut stream).await);
    proxy.set(Mode::Pass);
    assert_closed(&mut stream).await;
}

#[tokio::test]
async fn swallows_requests() {
    let (proxy, received) = start().await;
    let mut stream = connected(&proxy).await;
    proxy.set(Mode::SwallowRequests);
    send(&mut stream, "lost").await;
    assert!(is_silent(&mut stream).await);
    assert_received(&received, "hi").await;
}

#[tokio::test]
async fn a_swallowing_mode_without_a_loss_is_harmless() {
    let (proxy, _) = start().await;
    let mut stream = connected(&proxy).await;
    proxy.set(Mode::SwallowReplies);
    proxy.set(Mode::Pass);
    assert_eq!(exchange(&mut stream, "still here").await, "still here");
}

#[tokio::test]
async fn what_falls_into_a_black_hole_arrives_late() {
    let (proxy, received) = start().await;
    let mut stream = connected(&proxy).await;
    proxy.set(Mode::BlackHole);
    send(&mut stream, "late").await;
    assert!(is_silent(&mut stream).await);
    assert_received(&received, "hi").await;
    drop(stream);
    proxy.set(Mode::Pass);
    assert_received(&received, "hilate").await;
}

#[tokio::test]
async fn a_black_hole_for_existing_connections_lets_new_ones_pass() {
    let (proxy, _) = start().await;
    let mut old = connected(&proxy).await;
    proxy.set_existing(Mode::BlackHole);
    send(&mut old, "anyone?").await;
    connected(&proxy).await;
    assert!(is_silent(&mut old).await);
}

#[tokio::test]
async fn refuses_new_connections_only() {
    let (proxy, _) = start().await;
    let mut old = connected(&proxy).await;
    proxy.set(Mode::Refuse);
    let reset = match TcpStream::connect(proxy.addr()).await {
        Ok(mut new) => new.read_u8().await.expect_err("refused"),
        Err(refused) => refused,
    };
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert_eq!(exchange(&mut old, "still here").await, "still here");
    proxy.set(Mode::Pass);
    connected(&proxy).await;
}

#[tokio::test]
async fn cuts_existing_connections_only() {
    let (proxy, _) = start().await;
    let mut old = connected(&proxy).await;
    proxy.cut();
    assert_closed(&mut old).await;
    connected(&proxy).await;
}

#[tokio::test]
async fn delays_each_way_without_slowing_what_comes_behind() {
    let (proxy, _) = start().await;
    let mut stream = connected(&proxy).await;
    proxy.set(Mode::Delay(Duration::from_millis(300)));
    let start = Instant::now();
    for _ in 0..10 {
        send(&mut stream, "x").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    receive(&mut stream, 10).await;
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(600), "{took:?}");
    // One after the other they would take ten delays.
    assert!(took < Duration::from_millis(3_000), "{took:?}");
}

#[tokio::test]
async fn cuts_after_so_many_bytes_and_loses_the_reply() {
    for bytes in 0..=4 {
        let (proxy, received) = start().await;
        let mut stream = connected(&proxy).await;
        proxy.set_existing(Mode::CutAfter(bytes));
        // The connection may be gone before anything is sent.
        let _ = stream.write_all(b"abcd").await;
        assert_closed(&mut stream).await;
        let expected = format!("hi{}", &"abcd"[..bytes as usize]);
        assert_received(&received, &expected).await;
        connected(&proxy).await;
    }
}

#[tokio::test]
async fn counts_the_bytes_before_a_cut_over_several_requests() {
    let (proxy, received) = start().await;
    let mut stream = connected(&proxy).await;
    proxy.set(Mode::CutAfter(3));
    assert_eq!(exchange(&mut stream, "ab").await, "ab");
    send(&mut stream, "cd").await;
    assert_closed(&mut stream).await;
    assert_received(&received, "hiabc").await;
}

#[tokio::test]
async fn ends_its_connections_when_it_is_dropped() {
    let (proxy, _) = start().await;
    let (mut stream, address) = (connected(&proxy).await, proxy.addr());
    drop(proxy);
    assert_closed(&mut stream).await;
    eventually("nobody listens", SOON, async || TcpStream::connect(address).await.is_err()).await;
}
