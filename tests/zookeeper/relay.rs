//! A relay before a ZooKeeper server that holds requests of some kinds back.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::{mpsc, watch};

/// Code of a transaction.
pub(crate) const MULTI: &[i32] = &[14];

/// Codes of reads of a node's children.
pub(crate) const CHILDREN: &[i32] = &[8, 12];

/// Code of a ping, which overtakes requests that are held back.
const PING: i32 = 11;

/// Codes of the requests that are held back, and true while one of them waits.
struct Gate {
    shut_for: watch::Sender<&'static [i32]>,
    has_waiting: watch::Sender<bool>,
}

pub(crate) struct Relay {
    address: SocketAddr,
    gate: Arc<Gate>,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("a bound port has an address");
        let (shut_for, has_waiting) = (watch::Sender::new(&[][..]), watch::Sender::new(false));
        let gate = Arc::new(Gate { shut_for, has_waiting });
        let shared = gate.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, shared.clone()));
            }
        });
        Self { address, gate }
    }

    pub(crate) fn url(&self) -> String {
        format!("zookeeper://{}/", self.address)
    }

    /// Holds these requests back from now on, with all behind them, and lets others pass.
    pub(crate) fn hold(&self, codes: &'static [i32]) {
        self.gate.has_waiting.send_replace(false);
        self.gate.shut_for.send_replace(codes);
    }

    /// Returns once a request is held back.
    pub(crate) async fn until_holding(&self) {
        let mut waiting = self.gate.has_waiting.subscribe();
        waiting.wait_for(|waiting| *waiting).await.expect("the relay runs");
    }
}

async fn carry(client: TcpStream, server: SocketAddr, gate: Arc<Gate>) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    let (arrived, mut requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(request) = read(&mut from_client).await {
            let _ = arrived.send(request);
        }
    });
    let (mut shut_for, mut held) = (gate.shut_for.subscribe(), VecDeque::<Vec<u8>>::new());
    loop {
        select! {
            request = requests.recv() => match request {
                None => return Ok(()),
                Some(ping) if code(&ping) == PING => to_server.write_all(&ping).await?,
                Some(request) => held.push_back(request),
            },
            _ = shut_for.changed() => {}
        }
        let shut = *shut_for.borrow_and_update();
        while held.front().is_some_and(|request| !shut.contains(&code(request))) {
            let request = held.pop_front().unwrap_or_default();
            to_server.write_all(&request).await?;
        }
        if !held.is_empty() {
            gate.has_waiting.send_replace(true);
        }
    }
}

/// Reads a request with its length.
async fn read(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut request = length.to_be_bytes().to_vec();
    request.resize(4 + length as usize, 0);
    from.read_exact(&mut request[4..]).await?;
    Ok(request)
}

/// Returns the code of a request, which follows its length and number.
fn code(request: &[u8]) -> i32 {
    let code = request.get(8..12).and_then(|code| code.try_into().ok());
    code.map_or(0, i32::from_be_bytes)
}
