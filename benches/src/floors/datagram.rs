//! A datagram to a waiting process.

use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::net::UnixDatagram;

use crate::child::Child;
use crate::client::Result;
use crate::wake_up::WakeUp;

/// A round trip, of which half counts: each process has its own clock.
pub(crate) struct Datagram {
    socket: UnixDatagram,
    _echo: Child,
}

impl Datagram {
    pub(crate) async fn in_folder(folder: &Path) -> Result<Self> {
        let (ours, theirs) = (folder.join("floor.a"), folder.join("floor.b"));
        let _ = std::fs::remove_file(&ours);
        let socket = UnixDatagram::bind(&ours)?;
        let mut echo = Child::start(&["echo", &theirs.display().to_string()])?;
        echo.line().await?;
        socket.connect(&theirs)?;
        Ok(Self { socket, _echo: echo })
    }
}

#[async_trait]
impl WakeUp for Datagram {
    async fn once(&mut self) -> Result<Duration> {
        let mut reply = [0];
        let sent = Instant::now();
        self.socket.send(&[0]).await?;
        self.socket.recv(&mut reply).await?;
        Ok(sent.elapsed() / 2)
    }
}

/// Sends back its input, until its process ends.
pub(crate) fn echo(path: &Path) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let socket = std::os::unix::net::UnixDatagram::bind(path)?;
    println!("ready");
    let mut datagram = [0];
    loop {
        let (_, from) = socket.recv_from(&mut datagram)?;
        socket.send_to(&datagram, from.as_pathname().ok_or("the sender has a path")?)?;
    }
}
