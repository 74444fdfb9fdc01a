//! `leasehold inspect`: who holds a lock.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::seen::Seen;
use crate::terminal::{GOOD, HEADING, print, print_json, styled};
use crate::url;

pub(crate) async fn run(args: &args::Inspect, url: Option<&str>) -> Result<Exit, Failure> {
    let client = url::connect(url).await?;
    let seen = Seen::from(client.inspect(&args.name).await?);
    if args.json {
        print_json(&seen)?;
    } else {
        print(described(&seen))?;
    }
    Ok(Exit::Done)
}

/// A line for each thing that is known.
fn described(seen: &Seen) -> String {
    let state = if seen.held { styled(HEADING, "held") } else { styled(GOOD, "free") };
    let mut lines = vec![format!("{}: {state}", seen.name)];
    let mut add = |what: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {what:8} {value}")));
    };
    add("label", seen.label.clone());
    add("owner", seen.owner.clone());
    add("token", seen.token.map(|token| token.to_string()));
    add("TTL left", seen.held.then(|| seen.ttl()));
    add("waiters", seen.waiters.map(|waiters| waiters.to_string()));
    lines.join("\n")
}
