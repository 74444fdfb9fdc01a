//! `leasehold inspect`: the holders of a lock.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::lock_view::{HolderView, LockView};
use crate::terminal::{GOOD, HEADING, print, print_json, styled};
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Inspect, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect().await?;
    let view = LockView::from(client.admin().inspect(&args.name).await?);
    if args.json {
        print_json(&view)?;
    } else {
        print(described(&view))?;
    }
    Ok(if args.exit_code && !view.held { Exit::No } else { Exit::Done })
}

/// Returns a line for each known fact about the lock and its first holder, and one for each further holder.
fn described(view: &LockView) -> String {
    let state = if view.held { styled(HEADING, "held") } else { styled(GOOD, "free") };
    let mut lines = vec![format!("{}: {state}", view.name)];
    let mut add = |what: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {what:8} {value}")));
    };
    let first = &view.first;
    add("label", first.label.as_ref().map(ToString::to_string));
    add("owner", first.owner.clone());
    add("token", first.token.map(|token| token.to_string()));
    add("kind", view.held.then(|| first.kind()));
    add("since", since(first));
    add("TTL left", view.held.then(|| first.ttl()));
    add("waiters", view.waiters.map(|waiters| waiters.to_string()));
    // C38: one line for each holder.
    view.holders.iter().skip(1).for_each(|holder| add("and by", Some(holder.with_times())));
    lines.join("\n")
}

/// Returns `2026-03-01T14:03:22Z, 12s ago`.
fn since(holder: &HolderView) -> Option<String> {
    let since = holder.since()?;
    Some(match holder.age() {
        Some(age) => format!("{since}, {} ago", humantime::format_duration(age)),
        None => since,
    })
}
