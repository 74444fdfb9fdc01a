//! `leasehold acquire`: a lock that another command gives back.

use std::path::Path;
use std::slice;

use leasehold::{ClientOptions, LockClient, LockName, MultiGuard, MultiRequest};

use crate::args;
use crate::event::Event;
use crate::exit::{Exit, Failure};
use crate::lease_file::{self, LeaseFile};
use crate::request::{acquire, names, patience, request, wait};
use crate::run::{Signals, connect, interrupted, not_acquired, shut_down};
use crate::terminal::print_json;
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Acquire, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let names = names(slice::from_ref(&args.name))?;
    // Signals are caught before there is anything that a signal would leave behind.
    let mut signals = Signals::listen()?;
    let file = LeaseFile::new(&args.lease)?;
    let wait = wait(&args.request);
    let client = connect(store, patience(wait), ClientOptions::new(), false, &mut signals).await?;
    let lease = args::Lease { ttl: args.span, label: args.label.clone() };
    let request = request(&names, wait, &args.request, &lease);
    let held = tokio::select! {
        biased;
        held = hold(&client, request, args) => held,
        signal = signals.interruption() => Err(interrupted(&names, signal)),
    };
    let handed_on = match held {
        Ok(guard) => hand_on(&client, &names, guard, file, (&args.lease, &store.shown())).await,
        Err(failure) => Err(failure),
    };
    shut_down(&client).await;
    handed_on.map(|()| Exit::Done)
}

/// Acquires the lock for the whole span: a hold that was gained by waiting is shorter at first.
async fn hold(
    client: &LockClient,
    request: MultiRequest,
    args: &args::Acquire,
) -> Result<MultiGuard, Failure> {
    let guard = acquire(client, request, false).await.map_err(not_acquired)?;
    for hold in guard.guards() {
        hold.extend(args.span).await?;
    }
    Ok(guard)
}

/// Writes the lease to the file, and prints the event. If either fails, the caller does not count on the hold, so it is
/// given back here.
async fn hand_on(
    client: &LockClient,
    names: &[LockName],
    guard: MultiGuard,
    file: LeaseFile,
    (path, store): (&Path, &str),
) -> Result<(), Failure> {
    let event = Event::held(names, &guard);
    let Some(hold) = guard.into_guards().pop() else { return Ok(()) };
    let lease = hold.detach()?;
    let told = file.write(&lease, store).and_then(|()| {
        let printed = print_json(&event).map_err(Failure::from);
        printed.inspect_err(|_| drop(lease_file::remove(path)))
    });
    if told.is_err() {
        client.attach(lease).await?.release().await?;
    }
    told
}
