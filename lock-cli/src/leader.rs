//! `leasehold leader`: the leader of an election.

use std::fmt;
use std::io;

use leasehold::core::Label;
use leasehold::{FencingToken, Leader, LockError, LockName};
use serde::Serialize;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::follow::{POLL_INTERVAL, stamped, tell_outage, while_read};
use crate::lock_view::{shown, since_1970};
use crate::terminal::{print, print_json};
use crate::url::StoreUrl;

pub(crate) async fn run(args: &args::Leader, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let name = LockName::new(&args.name).map_err(LockError::from)?;
    let election = store.connect().await?.election(&name);
    if !args.follow {
        tell(&LeaderView::of(&name, election.leader().await?), args)?;
        return Ok(Exit::Done);
    }
    let mut observer = election.observe().poll_every(POLL_INTERVAL).on_outage(tell_outage);
    loop {
        let leader = while_read(observer.next()).await?;
        tell(&LeaderView::of(&name, leader), args)?;
    }
}

fn tell(view: &LeaderView<'_>, args: &args::Leader) -> io::Result<()> {
    match (args.json, args.follow) {
        (true, _) => print_json(view),
        (false, false) => print(view),
        (false, true) => print(stamped(view)),
    }
}

/// View of a leader. The names of the fields are the keys of the JSON. Without a leader the term is null.
#[derive(Debug, Serialize)]
struct LeaderView<'a> {
    name: &'a LockName,
    term: Option<u64>,
    label: Option<Label>,
    since_ms: Option<u64>,
}

impl<'a> LeaderView<'a> {
    fn of(name: &'a LockName, leader: Option<Leader>) -> Self {
        match leader {
            None => Self { name, term: None, label: None, since_ms: None },
            Some(Leader { term, label, since, .. }) => Self {
                name,
                term: Some(FencingToken::get(term)),
                label: Some(label).filter(|label| !label.as_str().is_empty()),
                since_ms: since.and_then(since_1970),
            },
        }
    }
}

/// Shows one line: `web-3:4711 in term 17 since 2026-03-01T14:03:22Z`.
impl fmt::Display for LeaderView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(term) = self.term else { return f.write_str("nobody") };
        match &self.label {
            Some(label) => write!(f, "{label}")?,
            None => f.write_str("somebody without a label")?,
        }
        write!(f, " in term {term}")?;
        shown(self.since_ms).iter().try_for_each(|since| write!(f, " since {since}"))
    }
}
