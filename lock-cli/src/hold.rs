//! `leasehold hold`: a lock for a program in any language that starts this as a co-process.

mod line;
mod on_request;
mod program;

use leasehold::{ClientOptions, LockClient, LockName, MultiRequest};

use self::program::Program;
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
    let (names, program) = (names(&args.names)?, Program::of(args.pid)?);
    // Signals are caught before there is anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    let wait = wait(&args.request);
    let (patience, options) = (patience(wait), ClientOptions::new());
    let client = connect(store, patience, options, args.json_lines, &mut signals).await?;
    let (ended, mut unreleased) = if args.json_lines {
        (on_request::serve(&client, args, store, &program, &mut signals).await, Vec::new())
    } else {
        let request = request(&names, wait, &args.request, &args.lease);
        hold(&client, &names, request, store, (&program, &mut signals)).await
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
    (program, signals): (&Program, &mut Signals),
) -> Ended {
    let mut input = tokio::io::stdin();
    let acquired = tokio::select! {
        biased;
        acquired = acquire(client, request, false) => acquired.map_err(not_acquired),
        signal = program.interrupted(signals) => Err(interrupted(names, signal)),
        // The program went away during the wait.
        () = program.ended(&mut input) => return (Ok(Exit::Done), Vec::new()),
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
        () = program.ended(&mut input) => Exit::Done,
        signal = program.interrupted(signals) => Exit::Signal(signal.as_raw()),
    };
    if exit == Exit::Lost {
        return (Ok(exit), Vec::new());
    }
    let (released, unreleased) = give_back(guard.into_guards(), &store.shown()).await;
    (released.map(|()| exit), unreleased)
}
