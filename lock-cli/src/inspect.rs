//! `leasehold inspect`: who holds a lock.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::lock_view::LockView;
use crate::terminal::{GOOD, HEADING, print, print_json, styled};
use crate::url::Place;

pub(crate) async fn run(args: &args::Inspect, place: &Place<'_>) -> Result<Exit, Failure> {
    let client = place.connect().await?;
    let view = LockView::from(client.inspect(&args.name).await?);
    if args.json {
        print_json(&view)?;
    } else {
        print(described(&view))?;
    }
    Ok(Exit::Done)
}

/// A line for each thing that is known.
fn described(view: &LockView) -> String {
    let state = if view.held { styled(HEADING, "held") } else { styled(GOOD, "free") };
    let mut lines = vec![format!("{}: {state}", view.name)];
    let mut add = |what: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {what:8} {value}")));
    };
    add("label", view.label.as_ref().map(ToString::to_string));
    add("owner", view.owner.clone());
    add("token", view.token.map(|token| token.to_string()));
    add("since", since(view));
    add("TTL left", view.held.then(|| view.ttl()));
    add("waiters", view.waiters.map(|waiters| waiters.to_string()));
    lines.join("\n")
}

/// `2026-03-01T14:03:22Z, 12s ago`.
fn since(view: &LockView) -> Option<String> {
    let since = view.since()?;
    Some(match view.age() {
        Some(age) => format!("{since}, {} ago", humantime::format_duration(age)),
        None => since,
    })
}
