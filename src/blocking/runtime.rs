//! The thread that runs the tasks of a client.

use std::io;
use std::mem::forget;
use std::process;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;

use lock_core::{ClientOptions, LockClient, LockError};

/// An async client, and the thread that runs its tasks.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) client: LockClient,
    handle: Handle,
    /// The process of the thread.
    process: u32,
    /// Ends the thread when it is dropped.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts a thread for the client that `open` returns.
    pub(super) fn start(
        open: impl Future<Output = Result<LockClient, LockError>>,
    ) -> Result<Self, LockError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let opened = runtime.block_on(open);
        let (client, handle) = match opened {
            Ok(client) => (client, runtime.handle().clone()),
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (end, ended) = oneshot::channel();
        let served = client.clone();
        let serve = async move {
            let _ = ended.await;
            let _ = timeout(ClientOptions::REQUEST_TIMEOUT, served.shutdown()).await;
        };
        let thread = thread::Builder::new()
            .name("leasehold".into())
            .spawn(move || {
                runtime.block_on(serve);
                // Waits for no blocked thread, such as a thread that asks a silent name server.
                runtime.shutdown_background();
            })
            .map_err(no_thread)?;
        let process = process::id();
        Ok(Self { client, handle, process, end: Some(end), thread: Some(thread) })
    }

    /// Blocks the calling thread until `future` has ended.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.process != process::id() {
            // A fork has no such thread to wait for.
            return forget((self.end.take(), self.thread.take()));
        }
        self.end.take();
        // C20: releases dropped guards before a program ends. A thread of a runtime, such as this client's own,
        // does not block.
        if let Some(thread) = self.thread.take()
            && Handle::try_current().is_err()
        {
            let _ = thread.join();
        }
    }
}

fn no_thread(error: io::Error) -> LockError {
    let message = format!("cannot start the thread of a blocking client: {error}");
    LockError::Config { message }
}
