//! `leasehold ps`: the locks that are held.

use std::io;

use leasehold::LockError;
use leasehold::admin::LockState;
use unicode_width::UnicodeWidthStr;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::follow::{POLL_INTERVAL, stamped, tell_outage, while_read};
use crate::lock_view::{HolderView, LockView};
use crate::terminal::{self, HEADING, print, print_json, styled};
use crate::url::StoreUrl;

const HEADINGS: [&str; 8] =
    ["NAME", "OWNER", "TOKEN", "SINCE", "TTL LEFT", "WAITERS", "KIND", "LABEL"];

type Cells = [String; HEADINGS.len()];

pub(crate) async fn run(args: &args::Ps, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect().await?;
    if !args.follow {
        let listed = client.admin().list(&args.prefix, args.limit).await;
        if let Err(LockError::Incomplete { held, .. }) = &listed {
            tell(held.clone(), args)?;
        }
        tell(listed?, args)?;
        return Ok(Exit::Done);
    }
    let watch = client.admin().watch_list(&args.prefix, args.limit);
    let shown = args.clone();
    let mut watch = watch.poll_every(POLL_INTERVAL).on_outage(move |error| {
        if let LockError::Incomplete { held, .. } = error {
            // If the reader has gone, the next listing notices it.
            let _ = tell(held.clone(), &shown);
        }
        tell_outage(error);
    });
    loop {
        tell(while_read(watch.next()).await?, args)?;
    }
}

fn tell(held: Vec<LockState>, args: &args::Ps) -> io::Result<()> {
    let held: Vec<LockView> = held.into_iter().map(LockView::from).collect();
    match (args.json, args.follow) {
        (true, _) => print_json(&held)?,
        (false, false) => print(table(&held))?,
        (false, true) => print(stamped(format!("{} held\n{}\n", held.len(), table(&held))))?,
    }
    if held.len() == args.limit {
        terminal::warning("there may be more: see --limit");
    }
    Ok(())
}

fn table(held: &[LockView]) -> String {
    let rows: Vec<Cells> = held.iter().flat_map(rows).collect();
    let widths = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].width());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or_default()
    });
    let headings = line(&HEADINGS.map(str::to_owned), &widths);
    let rows = rows.iter().map(|row| line(row, &widths));
    [styled(HEADING, headings)].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// C38: returns a row for each holder.
fn rows(view: &LockView) -> impl Iterator<Item = Cells> {
    view.holders.iter().map(|holder| row(view, holder))
}

fn row(view: &LockView, holder: &HolderView) -> Cells {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        view.name.to_string(),
        or_dash(holder.owner.clone()),
        or_dash(holder.token.map(|token| token.to_string())),
        or_dash(holder.since()),
        holder.ttl(),
        or_dash(view.waiters.map(|waiters| waiters.to_string())),
        holder.kind(),
        or_dash(holder.label.as_ref().map(ToString::to_string)),
    ]
}

fn line(cells: &Cells, widths: &[usize; HEADINGS.len()]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, &width)| padded(cell, width));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// Pads a cell by its shown width: a Chinese or Japanese letter takes two columns of a terminal.
fn padded(cell: &str, width: usize) -> String {
    format!("{cell}{:1$}", "", width.saturating_sub(cell.width()))
}
