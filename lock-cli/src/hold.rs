//! `leasehold hold`: a lock for a program in any language that starts this as a co-process.

mod line;
mod on_request;

use std::io::IsTerminal;

use leasehold::{ClientOptions, LockClient, LockName, MultiRequest};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, Stdin};

use crate::args;
use crate::event::Event;
use crate::exit::{Exit, Failure};
use crate::request::{acquire, names, patience, request, wait};
use crate::run::{
    Signals, Unreleased, connect, give_back, interrupted, not_acquired, shut_down, told_of_loss,
};
use crate::terminal::print_json;
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Hold, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let names = names(&args.names)?;
    // Signals are caught before there is anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    let wait = wait(&args.request);
    let (patience, options) = (patience(wait), ClientOptions::new());
    let client = connect(store, patience, options, args.json_lines, &mut signals).await?;
    let (ended, mut unreleased) = if args.json_lines {
        (on_request::serve(&client, args, store, &mut signals).await, Vec::new())
    } else {
        let request = request(&names, wait, &args.request, &args.lease);
        hold(&client, &names, request, store, &mut signals).await
    };
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
    store: &StoreUrl<'_>,
    signals: &mut Signals,
) -> Ended {
    let mut input = tokio::io::stdin();
    let acquired = tokio::select! {
        biased;
        acquired = acquire(client, request, false) => acquired.map_err(not_acquired),
        signal = told_to_end(signals) => Err(interrupted(names, signal)),
        // The program went away during the wait.
        () = end_of(&mut input) => return (Ok(Exit::Done), Vec::new()),
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(failure) => return (Err(failure), Vec::new()),
    };
    if let Err(error) = print_json(&Event::held(names, &guard)) {
        return (Err(error.into()), Vec::new());
    }
    let exit = tokio::select! {
        biased;
        (name, reason) = guard.lost() => {
            let lost = Event::lost(&name, &told_of_loss(&guard, &name, reason));
            // The exit code shows it too.
            let _ = print_json(&lost);
            Exit::Lost
        }
        () = end_of(&mut input) => Exit::Done,
        signal = told_to_end(signals) => Exit::Signal(signal.as_raw()),
    };
    if exit == Exit::Lost {
        return (Ok(exit), Vec::new());
    }
    let (released, unreleased) = give_back(guard.into_guards(), &store.shown()).await;
    (released.map(|()| exit), unreleased)
}

/// Signals that a terminal sends to all processes at once.
const OF_TERMINAL: [Signal; 3] = [Signal::INT, Signal::HUP, Signal::QUIT];

/// Waits for a signal that ends the hold. A signal of the terminal has also reached the program that started us. That
/// program may clean up under the lock, and the end of the input shows when it is done. Cancel safe.
async fn told_to_end(signals: &mut Signals) -> Signal {
    loop {
        let signal = signals.interruption().await;
        if std::io::stdin().is_terminal() || !OF_TERMINAL.contains(&signal) {
            return signal;
        }
    }
}

/// Waits for the end of the input, and ignores earlier input. Cancel safe.
async fn end_of(input: &mut Stdin) {
    let mut passed_over = [0; 256];
    while input.read(&mut passed_over).await.is_ok_and(|read| read > 0) {}
}
