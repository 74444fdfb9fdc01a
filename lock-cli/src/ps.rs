//! `leasehold ps`: the locks that are held.

use crate::args;
use crate::exit::{Exit, Failure};
use crate::seen::Seen;
use crate::terminal::{self, HEADING, print, print_json, styled};
use crate::url;

const HEADINGS: [&str; 6] = ["NAME", "OWNER", "TOKEN", "TTL LEFT", "WAITERS", "LABEL"];

pub(crate) async fn run(args: &args::Ps, url: Option<&str>) -> Result<Exit, Failure> {
    let client = url::connect(url).await?;
    let held = client.list(&args.prefix, args.limit).await?;
    let held: Vec<Seen> = held.into_iter().map(Seen::from).collect();
    if args.json {
        print_json(&held)?;
    } else {
        print(table(&held))?;
    }
    if held.len() == args.limit {
        terminal::warning("there may be more: see --limit");
    }
    Ok(Exit::Done)
}

fn table(held: &[Seen]) -> String {
    let rows: Vec<[String; 6]> = held.iter().map(row).collect();
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or_default()
    });
    let headings = line(&HEADINGS.map(str::to_owned), &widths);
    let rows = rows.iter().map(|row| line(row, &widths));
    [styled(HEADING, headings)].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

fn row(seen: &Seen) -> [String; 6] {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        seen.name.clone(),
        or_dash(seen.owner.clone()),
        or_dash(seen.token.map(|token| token.to_string())),
        seen.ttl(),
        or_dash(seen.waiters.map(|waiters| waiters.to_string())),
        or_dash(seen.label.clone()),
    ]
}

fn line(cells: &[String; 6], widths: &[usize; 6]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, &width)| format!("{cell:width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}
