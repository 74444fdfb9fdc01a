//! The stage at which a request failed.

/// A failed request and its progress: the two cases differ in the possible effect on the server.
#[derive(Clone, Copy, Debug)]
pub enum RequestError<E> {
    /// There was no connection to send it over: it was not applied.
    Connect(E),
    /// The request was sent (C15).
    Execute(E),
}

impl<E> RequestError<E> {
    /// The driver's error.
    pub fn error(&self) -> &E {
        let (Self::Connect(error) | Self::Execute(error)) = self;
        error
    }
}
