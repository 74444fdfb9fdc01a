//! `leasehold ps`: the locks that are held.

use std::io;
use std::pin::pin;

use futures_util::TryStreamExt;
use leasehold::admin::LockState;
use leasehold::{LockClient, LockError};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::args;
use crate::exit::{Exit, Failure};
use crate::follow::{POLL_INTERVAL, stamped, tell_outage, while_read};
use crate::lock_view::{HolderView, LockView};
use crate::terminal::{self, HEADING, VERSION, print, print_json, print_part, styled};
use crate::url::StoreUrl;

const HEADINGS: [&str; 8] =
    ["NAME", "OWNER", "TOKEN", "SINCE", "TTL LEFT", "WAITERS", "KIND", "LABEL"];

type Cells = [String; HEADINGS.len()];

pub(crate) async fn run(args: &args::Ps, store: &StoreUrl<'_>) -> Result<Exit, Failure> {
    let client = store.connect().await?;
    if !args.follow {
        return tell_pages(&client, args).await;
    }
    let watch = client.admin().watch_list(&args.prefix, args.limit);
    let shown = args.clone();
    let mut watch = watch.poll_every(POLL_INTERVAL).on_outage(move |error| {
        if let LockError::Incomplete { held, .. } = error {
            // If the reader has gone, the next listing notices it.
            let _ = tell_again(held.clone(), &shown);
        }
        tell_outage(error);
    });
    loop {
        tell_again(while_read(watch.next()).await?, args)?;
    }
}

/// Prints the locks as the store tells them: no more than a page of them is in memory.
async fn tell_pages(client: &LockClient, args: &args::Ps) -> Result<Exit, Failure> {
    let admin = client.admin();
    let mut pages = pin!(admin.pages(&args.prefix, args.limit));
    let mut listing = Listing::new(args.json);
    let failed = loop {
        match pages.try_next().await {
            Ok(Some(held)) => listing.print(held)?,
            Ok(None) => break None,
            Err(LockError::Incomplete { held, source }) => {
                listing.print(held)?;
                break Some(LockError::Incomplete { held: Vec::new(), source });
            }
            Err(error) => break Some(error),
        }
    };
    // An error without a listing has no heading.
    if failed.is_none() || listing.count > 0 {
        listing.end()?;
    }
    warn_if_cut(listing.count, args.limit);
    failed.map_or(Ok(Exit::Done), |error| Err(error.into()))
}

/// Prints the whole list, once more.
fn tell_again(held: Vec<LockState>, args: &args::Ps) -> io::Result<()> {
    let count = held.len();
    if args.json {
        let locks = held.into_iter().map(LockView::from).collect();
        print_json(&Locks { locks })?;
    } else {
        let table = Table::default().lines(held).join("\n");
        print(stamped(format!("{count} held\n{table}\n")))?;
    }
    warn_if_cut(count, args.limit);
    Ok(())
}

fn warn_if_cut(count: usize, limit: usize) {
    if count == limit {
        terminal::warning("there may be more: see --limit");
    }
}

/// View of a listing. The name of the field is the key of the JSON.
#[derive(Serialize)]
struct Locks {
    locks: Vec<LockView>,
}

/// A listing that is printed in parts: a table, or an object of JSON.
struct Listing {
    count: usize,
    table: Option<Table>,
}

impl Listing {
    fn new(is_json: bool) -> Self {
        Self { count: 0, table: (!is_json).then(Table::default) }
    }

    /// Prints further locks.
    fn print(&mut self, held: Vec<LockState>) -> io::Result<()> {
        if held.is_empty() {
            return Ok(());
        }
        let begins = if self.count == 0 { Self::start() } else { ",".to_owned() };
        self.count += held.len();
        if let Some(table) = &mut self.table {
            return print(table.lines(held).join("\n"));
        }
        let locks = held.into_iter().map(|state| serde_json::to_string(&LockView::from(state)));
        let locks = locks.collect::<Result<Vec<_>, _>>()?;
        print_part(begins + &locks.join(","))
    }

    /// Prints the end.
    fn end(&mut self) -> io::Result<()> {
        match (&mut self.table, self.count) {
            (None, 0) => print(Self::start() + "]}"),
            (None, _) => print("]}"),
            (Some(table), 0) => print(table.lines(Vec::new()).join("\n")),
            (Some(_), _) => Ok(()),
        }
    }

    /// Returns the start of an object like [`Locks`].
    fn start() -> String {
        format!(r#"{{"version":{VERSION},"locks":["#)
    }
}

/// A table whose columns grow with its rows.
#[derive(Default)]
struct Table {
    widths: Option<[usize; HEADINGS.len()]>,
}

impl Table {
    /// Returns the lines of more locks, with the headings at first.
    fn lines(&mut self, held: Vec<LockState>) -> Vec<String> {
        let views: Vec<LockView> = held.into_iter().map(LockView::from).collect();
        let rows: Vec<Cells> = views.iter().flat_map(rows).collect();
        let before = self.widths.unwrap_or(HEADINGS.map(str::len));
        let widths = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].width());
            cells.chain([before[column]]).max().unwrap_or_default()
        });
        let headings = match self.widths.replace(widths) {
            None => vec![styled(HEADING, line(&HEADINGS.map(str::to_owned), &widths))],
            Some(_) => Vec::new(),
        };
        let rows = rows.iter().map(|row| line(row, &widths));
        headings.into_iter().chain(rows).collect()
    }
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
