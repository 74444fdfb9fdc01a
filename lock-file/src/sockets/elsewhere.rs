//! Other systems than Linux: they have no locks in files, so no process waits for one.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::path::Path;

use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct Sockets;

#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Sent,
    Nobody,
}

#[derive(Debug)]
pub(crate) struct BoundSocket(Infallible);

#[derive(Debug)]
pub(crate) struct HearingSocket(Infallible);

impl Sockets {
    pub(crate) fn of(_directory: &Path) -> Self {
        Self
    }

    pub(crate) fn bind(&self) -> io::Result<BoundSocket> {
        Err(ErrorKind::Unsupported.into())
    }

    pub(crate) fn tell(&self, _name: Uuid, _message: &str) -> Delivered {
        Delivered::Nobody
    }
}

impl BoundSocket {
    pub(crate) fn hear(self) -> io::Result<HearingSocket> {
        match self.0 {}
    }
}

impl HearingSocket {
    pub(crate) fn name(&self) -> Uuid {
        match self.0 {}
    }

    pub(crate) async fn recv(&mut self) -> io::Result<String> {
        match self.0 {}
    }

    pub(crate) fn is_found(&self) -> bool {
        match self.0 {}
    }
}
