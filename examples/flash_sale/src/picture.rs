//! The picture: who held the lock when, while a worker was stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::canvas::{ALARM, Align, Canvas, FAINT, INK, LOOK, OVER, RULE, SALE, STOPPED, Scale};
use crate::lanes::{self, Lanes};
use crate::played::{LateWrite, Played};
use crate::sale::{Failure, STOCK};

const WIDTH: i32 = 1100;
const LEFT: i32 = 84;
const RIGHT: i32 = WIDTH - 24;
/// How high the curve of the stock is.
const CURVE: i32 = 80;
/// A heading, a curve, the lanes and the time.
const RUN: i32 = 34 + CURVE + 10 + lanes::HEIGHT + 40;
/// A heading, the lanes and the time.
const CLOSE_UP: i32 = 34 + lanes::HEIGHT + 30;
const HEADER: i32 = 78;

/// How much time the close-up shows before and after the lock changed hands.
const BEFORE: Duration = Duration::from_millis(12);
const AFTER: Duration = Duration::from_millis(98);

/// Where the picture goes: among the things that were built, or else that are temporary.
pub(crate) fn path() -> PathBuf {
    let built = Path::new("target");
    let home = match built.is_dir() {
        true => built.to_owned(),
        false => std::env::temp_dir(),
    };
    home.join("flash_sale.svg")
}

/// Draws the acts in which a worker was stopped.
pub(crate) fn paint(path: &Path, played: &[Played]) -> Result<(), Failure> {
    let runs: Vec<_> = played.iter().filter(|run| run.act.stops_a_worker()).collect();
    let height = HEADER + RUN * runs.len() as i32 + CLOSE_UP;
    let mut svg = String::new();
    let canvas = Canvas::new(&mut svg, (WIDTH as u32, height as u32))?;
    header(&canvas)?;
    let span = runs.iter().map(|run| shown(run)).max().unwrap_or_default();
    let mut top = HEADER;
    for run in &runs {
        whole_run(&canvas, run, span, top)?;
        top += RUN;
    }
    if let Some(fenced) = runs.last() {
        close_up(&canvas, fenced, top)?;
    }
    canvas.finish()?;
    Ok(fs::write(path, svg)?)
}

/// How long after its beginning a run is worth showing: until the last sale, and a little more.
fn shown(run: &Played) -> Duration {
    let last_sale = run.stock().last().map_or(run.began, |(at, _)| *at);
    let late_write = run.late_write().map_or(run.began, |late| late.at());
    last_sale.max(late_write) - run.began + Duration::from_millis(250)
}

fn header(canvas: &Canvas<'_>) -> Result<(), Failure> {
    let title = "Ten workers sell 100 items; one is stopped while it holds the lock";
    canvas.text(((LEFT, 24), Align::Left), 20, INK, title)?;
    let key = [
        (SALE, "holds the lock and sells"),
        (LOOK, "holds the lock, nothing left"),
        (STOPPED, "stopped, its lease lasts"),
        (OVER, "stopped, its lease is over"),
    ];
    let mut x = LEFT;
    for (color, text) in key {
        canvas.bar((x, 49), (x + 22, 61), color)?;
        canvas.text(((x + 28, 55), Align::Left), 12, INK, text)?;
        x += 48 + text.len() as i32 * 7;
    }
    canvas.dot((x + 6, 55), ALARM)?;
    canvas.text(((x + 18, 55), Align::Left), 12, INK, "its late write")
}

fn whole_run(canvas: &Canvas<'_>, run: &Played, span: Duration, top: i32) -> Result<(), Failure> {
    let scale = Scale { from: run.began, to: run.began + span, left: LEFT, right: RIGHT };
    canvas.text(((LEFT, top + 16), Align::Left), 15, INK, &heading(run))?;
    stock_curve(canvas, run, scale, top + 34)?;
    let top = top + 34 + CURVE + 10;
    let played = run;
    Lanes { canvas, played, scale, top }.draw()?;
    let step = Duration::from_millis(500);
    lanes::time_axis(canvas, scale, top + lanes::HEIGHT + 2, (run.began, step))
}

fn heading(run: &Played) -> String {
    let shop = match run.late_write() {
        Some(LateWrite::Refused { .. }) => "The shop checks tokens: the late write is refused",
        _ => "The shop trusts the lock: the late write is taken",
    };
    format!("{shop}, and {} buyers pay for {STOCK} items", run.sold)
}

/// The stock after each write. It should only ever fall.
fn stock_curve(canvas: &Canvas<'_>, run: &Played, scale: Scale, top: i32) -> Result<(), Failure> {
    let y = |stock: u32| top + CURVE - stock as i32 * CURVE / STOCK as i32;
    for (stock, label) in [(0, "0"), (STOCK / 2, "stock 50"), (STOCK, "100")] {
        canvas.line(vec![(scale.left, y(stock)), (scale.right, y(stock))], RULE)?;
        canvas.text(((scale.left - 8, y(stock)), Align::Right), 11, FAINT, label)?;
    }
    let mut curve = vec![(scale.left, y(STOCK))];
    for (at, stock) in run.stock() {
        let before = curve.last().map_or(y(STOCK), |point| point.1);
        let (corner, point) = ((scale.x(at), before), (scale.x(at), y(stock)));
        if point.1 < before {
            canvas.thick_line(vec![corner, point], ALARM)?;
        }
        curve.extend([corner, point]);
    }
    curve.push((scale.right, curve.last().map_or(y(0), |point| point.1)));
    canvas.thick_line(curve, INK)?;
    match run.late_write() {
        Some(late) => late_write(canvas, late, scale.x(late.at()), (top, y)),
        None => Ok(()),
    }
}

/// Marks on the curve what the late write did to the stock.
fn late_write(
    canvas: &Canvas<'_>,
    late: LateWrite,
    x: i32,
    (top, y): (i32, impl Fn(u32) -> i32),
) -> Result<(), Failure> {
    canvas.line(vec![(x, y(0)), (x, y(0) + 10)], ALARM)?;
    match late {
        LateWrite::Taken { left, .. } => {
            let text = format!("late write: the stock jumps from 0 to {left}");
            canvas.thick_line(vec![(x, y(0)), (x, y(left))], ALARM)?;
            canvas.dot((x, y(left)), ALARM)?;
            canvas.text(((x + 12, top + 4), Align::Left), 13, ALARM, &text)
        }
        LateWrite::Refused { seen, .. } => {
            let refused = ((x + 12, top + 40), Align::Left);
            canvas.dot((x, y(0)), ALARM)?;
            canvas.text(refused, 13, ALARM, "late write refused: its token is stale,")?;
            let seen = format!("the shop has seen {seen}");
            canvas.text(((x + 12, top + 58), Align::Left), 13, ALARM, &seen)
        }
    }
}

/// The moment at which the lock changed hands, with the tokens of the holds.
fn close_up(canvas: &Canvas<'_>, run: &Played, top: i32) -> Result<(), Failure> {
    let Some(next) = run.taken_over() else {
        return Ok(());
    };
    let scale = Scale { from: next.from - BEFORE, to: next.from + AFTER, left: LEFT, right: RIGHT };
    let heading =
        "The same, where the lease ends: each hold has a greater token (last digits shown)";
    canvas.text(((LEFT, top + 16), Align::Left), 15, INK, heading)?;
    let (played, top) = (run, top + 34);
    Lanes { canvas, played, scale, top }.draw()?;
    let step = Duration::from_millis(20);
    lanes::time_axis(canvas, scale, top + lanes::HEIGHT + 2, (run.began, step))
}
