//! `leasehold hold --json-lines`: holds locks on request of the input's lines.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold::{LockClient, LockName, MultiRequest};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::line::Asked;
use super::program::Program;
use crate::args;
use crate::event::Event;
use crate::exit::{Exit, Failure};
use crate::request::acquire;
use crate::run::{SHUTDOWN_GRACE, Signals, Unreleased, give_back, not_acquired, told_of_loss};
use crate::terminal::Versioned;
use crate::url::StoreUrl;

/// Serves the lines of the input until its end, the end of the program or a signal, and then gives all locks back.
pub(super) async fn serve(
    client: &LockClient,
    args: &args::Hold,
    store: &StoreUrl<'_>,
    program: &Program,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let (lines, unwritten) = unbounded_channel();
    let holds = Holds { client, args, store: store.shown(), lines };
    let mut writing = pin!(write(unwritten));
    let exit = tokio::select! {
        biased;
        Err(error) = &mut writing => return Err(error.into()),
        exit = holds.until_the_end(program, signals) => exit,
    };
    drop(holds);
    // A program that has closed our input may have stopped reading.
    match timeout(SHUTDOWN_GRACE, writing).await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(exit),
    }
}

/// Writes lines. Holds continue while nobody reads them.
async fn write(mut lines: UnboundedReceiver<String>) -> io::Result<()> {
    let mut output = stdout();
    while let Some(line) = lines.recv().await {
        output.write_all(line.as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

/// A line of the output.
#[derive(Serialize)]
struct OutputLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(flatten)]
    event: &'a Event,
}

struct Holds<'a> {
    client: &'a LockClient,
    args: &'a args::Hold,
    store: String,
    lines: UnboundedSender<String>,
}

impl Holds<'_> {
    async fn until_the_end(&self, program: &Program, signals: &mut Signals) -> Exit {
        let mut input = BufReader::new(stdin()).split(b'\n');
        // Each id in use. The drop of its sender releases the hold.
        let mut releases = BTreeMap::<String, Option<oneshot::Sender<Infallible>>>::new();
        let mut holds = FuturesUnordered::new();
        let exit = loop {
            let line = tokio::select! {
                biased;
                Some(id) = holds.next() => {
                    releases.remove(&id);
                    continue;
                }
                line = input.next_segment() => line,
                () = program.process_ended() => break Exit::Done,
                signal = program.interrupted(signals) => break Exit::Signal(signal.as_raw()),
            };
            let Ok(Some(line)) = line else { break Exit::Done };
            match Asked::read(&line, self.args) {
                Ok(Asked::Acquire { id, .. }) if releases.contains_key(&id) => {
                    let text = format!("id {id:?} is in use");
                    self.tell(None, &Event::error(Exit::Usage, &text));
                }
                Ok(Asked::Acquire { id, names, request }) => {
                    let (release, released) = oneshot::channel();
                    releases.insert(id.clone(), Some(release));
                    holds.push(self.hold(id, names, *request, released));
                }
                // A hold that is over has reported it.
                Ok(Asked::Release(id)) => drop(releases.get_mut(&id).and_then(Option::take)),
                Err((id, failure)) => {
                    let id = id.filter(|id| !releases.contains_key(id));
                    self.tell(id.as_deref(), &failure.into());
                }
            }
        };
        releases.clear();
        while holds.next().await.is_some() {}
        exit
    }

    /// Holds locks until they are released or lost. Returns the id, which may be used again.
    async fn hold(
        &self,
        id: String,
        names: Vec<LockName>,
        request: MultiRequest,
        released: oneshot::Receiver<Infallible>,
    ) -> String {
        let end = self.end_of(&id, &names, request, released).await;
        self.tell(Some(&id), &end);
        id
    }

    async fn end_of(
        &self,
        id: &str,
        names: &[LockName],
        request: MultiRequest,
        mut released: oneshot::Receiver<Infallible>,
    ) -> Event {
        let acquired = tokio::select! {
            biased;
            acquired = acquire(self.client, request, true) => acquired,
            _ = &mut released => return Event::Released,
        };
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) => return not_acquired(error).into(),
        };
        if let Some(held) = Event::held(names, &guard) {
            self.tell(Some(id), &held);
        }
        tokio::select! {
            biased;
            (name, reason) = guard.lost() => {
                return Event::lost(&name, &told_of_loss(&guard, &name, reason));
            }
            _ = released => {}
        }
        let (released, mut unreleased) = give_back(guard.into_guards(), &self.store).await;
        unreleased.iter_mut().for_each(Unreleased::tell);
        match (released, unreleased.first()) {
            (Err(lost), _) => lost.into(),
            (Ok(()), Some(lock)) => Event::error(Exit::Unavailable, &lock.text()),
            (Ok(()), None) => Event::Released,
        }
    }

    /// Queues a line, which is written as soon as the program reads.
    fn tell(&self, id: Option<&str>, event: &Event) {
        if let Ok(line) = serde_json::to_string(&Versioned::of(&OutputLine { id, event })) {
            let _ = self.lines.send(line + "\n");
        }
    }
}
