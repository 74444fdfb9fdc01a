//! `leasehold hold`: a lock for a program in any language, which starts this as a co-process.

use std::collections::BTreeMap;

use leasehold::{LockClient, LockName, MultiGuard, MultiRequest, Slots};
use serde::Serialize;
use tokio::io::{AsyncReadExt, Stdin};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::request::{acquire, names, patience, request, wait};
use crate::run::{
    Signals, Unreleased, connect, give_back, interrupted, not_acquired, shut_down, told_of_loss,
};
use crate::terminal::print_json;
use crate::url::Place;

/// Events for the program that started us, a line each.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    Held { name: &'a str, token: u64, ttl_ms: u64, slots: Slots, tokens: BTreeMap<&'a str, u64> },
    Lost { name: &'a str, reason: &'a str },
}

pub(crate) async fn run(args: &args::Hold, place: &Place<'_>) -> Result<Exit, Failure> {
    let names = names(&args.names)?;
    // Before anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    let wait = wait(&args.request);
    let client = connect(place, patience(wait), &mut signals).await?;
    let request = request(&names, wait, &args.request, &args.lease);
    let (ended, mut unreleased) = hold(&client, &names, request, place, &mut signals).await;
    if shut_down(&client).await {
        unreleased.retain(Unreleased::is_refused);
    }
    unreleased.iter_mut().for_each(Unreleased::tell);
    ended
}

type Ended = (Result<Exit, Failure>, Vec<Unreleased>);

async fn hold(
    client: &LockClient,
    names: &[LockName],
    request: MultiRequest,
    place: &Place<'_>,
    signals: &mut Signals,
) -> Ended {
    let mut input = tokio::io::stdin();
    let acquired = tokio::select! {
        biased;
        acquired = acquire(client, request, false) => acquired.map_err(not_acquired),
        signal = signals.interruption() => Err(interrupted(names, signal)),
        // The program went away while it waited.
        () = end_of(&mut input) => return (Ok(Exit::Done), Vec::new()),
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(failure) => return (Err(failure), Vec::new()),
    };
    if let Err(error) = print_json(&held(names, &guard)) {
        return (Err(error.into()), Vec::new());
    }
    let exit = tokio::select! {
        biased;
        (name, reason) = guard.lost() => {
            let how = told_of_loss(&guard, &name, reason);
            let lost = Event::Lost { name: name.as_str(), reason: &how };
            // The exit code says it too.
            let _ = print_json(&lost);
            Exit::Lost
        }
        () = end_of(&mut input) => Exit::Done,
        signal = signals.interruption() => Exit::Signal(signal.as_raw()),
    };
    if exit == Exit::Lost {
        return (Ok(exit), Vec::new());
    }
    let (released, unreleased) = give_back(guard.into_guards(), &place.shown()).await;
    (released.map(|()| exit), unreleased)
}

/// Waits for the end of the input; what comes before it is not heeded. Cancel safe.
async fn end_of(input: &mut Stdin) {
    let mut passed_over = [0; 256];
    while input.read(&mut passed_over).await.is_ok_and(|read| read > 0) {}
}

/// The hold as its program reads it: name, token and slots of the lock that was named first, and the tokens of all.
fn held<'a>(names: &'a [LockName], guard: &'a MultiGuard) -> Option<Event<'a>> {
    let first = names.first()?;
    let hold = guard.guards().iter().find(|hold| hold.name() == first)?;
    let left = guard.guards().iter().map(|hold| hold.remaining()).min().unwrap_or_default();
    Some(Event::Held {
        name: first.as_str(),
        token: hold.token().get(),
        ttl_ms: left.as_millis().try_into().unwrap_or(u64::MAX),
        slots: Slots::new(hold.slots()),
        tokens: guard.tokens().map(|(name, token)| (name.as_str(), token.get())).collect(),
    })
}
