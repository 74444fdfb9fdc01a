//! The process of a client.

use std::process;

use crate::model::BackendError;

/// The process in which a client was opened.
///
/// A fork of that process has copies of the client and its guards, and none of its threads. Its connections are those of
/// the first process. So a fork asks nothing, renews nothing, and gives nothing back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(process::id())
    }

    /// Returns false in a fork.
    pub(crate) fn is_this(self) -> bool {
        self.0 == process::id()
    }

    /// Refuses a request in a fork.
    pub(crate) fn check(self, backend: &'static str) -> Result<(), BackendError> {
        if self.is_this() {
            return Ok(());
        }
        let (opener, this) = (self.0, process::id());
        let text = format!(
            "the client was opened in process {opener}, before the fork that made process {this}: open a client in \
             each process"
        );
        Err(BackendError::refusal(backend, text))
    }
}
