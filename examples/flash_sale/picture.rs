//! The picture: the holder of the lock at each time, while a worker was stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::played::{Hold, LateWrite, Played};
use crate::sale::{Failure, Sale};
use crate::svg::{Anchor, Svg};

const WIDTH: u32 = 1100;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH as f64 - 24.0;
const HEADER: f64 = 78.0;
/// Heights of the curve of the stock, of a lane, and of the bar in it.
const CURVE: f64 = 80.0;
const LANE: f64 = 18.0;
const BAR: f64 = 14.0;

const INK: &str = "#2d3748";
const FAINT: &str = "#718096";
const RULE: &str = "#e2e8f0";
const SALE: &str = "#2b6cb0";
const STOPPED: &str = "#dd9328";
const OVER: &str = "#f5e0be";
const ALARM: &str = "#c51e3a";

/// Draws the acts in which a worker was stopped: in the folder `target` if it exists, otherwise in a new
/// temporary file.
pub(crate) fn paint(played: &[Played]) -> Result<PathBuf, Failure> {
    let runs: Vec<_> = played.iter().filter(|run| run.act.stops_a_worker()).collect();
    let span = runs.iter().map(|run| shown(run)).max().unwrap_or_default();
    let panels: f64 = runs.iter().map(|run| height(run.sale)).sum();
    let mut svg = Svg::new(WIDTH, (HEADER + panels) as u32);
    let mut top = HEADER;
    for run in runs {
        if top == HEADER {
            header(&mut svg, run.sale);
        }
        Panel { svg: &mut svg, run, span, top }.draw();
        top += height(run.sale);
    }
    let path = path()?;
    fs::write(&path, svg.finish())?;
    Ok(path)
}

fn path() -> Result<PathBuf, Failure> {
    let built = Path::new("target");
    match built.is_dir() {
        true => Ok(built.join("flash_sale.svg")),
        false => {
            let file = tempfile::Builder::new().prefix("flash_sale-").suffix(".svg").tempfile()?;
            Ok(file.into_temp_path().keep()?)
        }
    }
}

/// Returns the height of a heading, a curve, the lanes and the time axis.
fn height(sale: Sale) -> f64 {
    34.0 + CURVE + 10.0 + LANE * f64::from(sale.workers) + 40.0
}

/// Returns the span of a run to draw: until the last sale or the late write, and a little more.
fn shown(run: &Played) -> Duration {
    let last_sale = run.stock().last().map_or(run.began, |(at, _)| *at);
    let late_write = run.late_write().map_or(run.began, |late| late.at());
    last_sale.max(late_write) - run.began + Duration::from_millis(250)
}

fn header(svg: &mut Svg, Sale { workers, items, .. }: Sale) {
    let title =
        format!("{workers} workers sell {items} items; one is stopped while it holds the lock");
    svg.text((LEFT, 24.0), Anchor::Start, 20, INK, &title);
    let key = [
        (SALE, "holds the lock and sells"),
        (STOPPED, "stopped, its lease lasts"),
        (OVER, "stopped, its lease is over"),
        (ALARM, "its late write"),
    ];
    let mut x = LEFT;
    for (color, text) in key {
        svg.bar((x, 49.0), (22.0, 12.0), color);
        svg.text((x + 28.0, 55.0), Anchor::Start, 12, INK, text);
        x += 48.0 + text.len() as f64 * 7.0;
    }
}

/// The drawing of one run: the stock, a lane for each worker, and the time axis.
struct Panel<'a> {
    svg: &'a mut Svg,
    run: &'a Played,
    span: Duration,
    top: f64,
}

impl Panel<'_> {
    fn draw(&mut self) {
        let shop = match self.run.late_write() {
            Some(LateWrite::Refused { .. }) => "The shop checks tokens: the late write is refused",
            _ => "The shop trusts the lock: the late write is taken",
        };
        let (sold, items) = (self.run.sold, self.run.sale.items);
        let heading = format!("{shop}, and {sold} buyers pay for {items} items");
        self.svg.text((LEFT, self.top + 16.0), Anchor::Start, 15, INK, &heading);
        self.stock();
        for worker in 0..self.run.sale.workers {
            let y = self.lane(worker);
            self.svg.line((LEFT, y), (RIGHT, y), RULE, 1);
            self.svg.text((LEFT - 8.0, y), Anchor::End, 12, INK, &format!("worker {worker}"));
        }
        // A hold that found nothing left is far shorter than a pixel.
        for hold in self.run.holds().iter().filter(|hold| hold.kept && hold.sold) {
            self.bar(hold.worker, (hold.from, hold.to), SALE, "");
        }
        self.stopped();
        self.time();
    }

    /// Draws the stock after each write. A correct stock only falls.
    fn stock(&mut self) {
        let items = self.run.sale.items;
        for (stock, label) in [(0, "0".to_owned()), (items, format!("stock {items}"))] {
            let y = self.height_of(stock);
            self.svg.line((LEFT, y), (RIGHT, y), RULE, 1);
            self.svg.text((LEFT - 8.0, y), Anchor::End, 11, FAINT, &label);
        }
        let mut before = (LEFT, self.height_of(items));
        let end = (self.run.began + self.span, self.run.stock().last().map_or(0, |last| last.1));
        for (at, stock) in self.run.stock().into_iter().chain([end]) {
            let (x, y) = (self.x(at), self.height_of(stock));
            self.svg.line(before, (x, before.1), INK, 2);
            self.svg.line((x, before.1), (x, y), if y < before.1 { ALARM } else { INK }, 2);
            before = (x, y);
        }
        let Some(late) = self.run.late_write() else { return };
        let (left, text) = match late {
            LateWrite::Taken { left, .. } => {
                (left, format!("late write: the stock jumps to {left}"))
            }
            LateWrite::Refused { seen, .. } => {
                (0, format!("late write refused: the shop has seen {seen}"))
            }
        };
        let (x, y) = (self.x(late.at()), self.height_of(left));
        self.svg.dot((x, y), ALARM);
        // Puts the text on the side with enough room: a letter is about 7 pixels wide.
        let fits = x + 12.0 + 7.0 * text.len() as f64 <= RIGHT;
        let (x, anchor) = if fits { (x + 12.0, Anchor::Start) } else { (x - 12.0, Anchor::End) };
        self.svg.text((x, self.height_of(items) + 12.0), anchor, 13, ALARM, &text);
    }

    /// Draws the hold of the stopped worker: until its lease expired, and until the worker stopped believing in
    /// it.
    fn stopped(&mut self) {
        let Some(stop) = self.run.stop else { return };
        let is_its_own = |hold: &Hold| hold.token == stop.token;
        let Some(own) = self.run.holds().into_iter().find(is_its_own) else { return };
        let lease_over = self.run.taken_over().map_or(own.to, |next| next.from);
        let text = format!("stopped; token {}", stop.token);
        self.bar(stop.worker, (own.from, lease_over), STOPPED, &text);
        self.bar(stop.worker, (lease_over, own.to), OVER, "lease over");
        if let Some(late) = self.run.late_write() {
            let at = (self.x(late.at()), self.lane(stop.worker));
            self.svg.dot(at, ALARM);
        }
    }

    /// Draws a bar in the lane of a worker, as wide as the hold was long: so two bars overlap only if their holds
    /// did. The text is inside the bar if it fits.
    fn bar(&mut self, worker: u32, (from, to): (Duration, Duration), color: &str, text: &str) {
        let (from, to) = (self.x(from), self.x(to));
        let (y, width) = (self.lane(worker), (to - from).max(0.0));
        self.svg.bar((from, y - BAR / 2.0), (width, BAR), color);
        if width > text.len() as f64 * 6.0 {
            self.svg.text((from + width / 2.0, y), Anchor::Middle, 11, INK, text);
        }
    }

    /// Draws the time axis at the bottom, with the time since the start.
    fn time(&mut self) {
        let y = self.lane(self.run.sale.workers);
        self.svg.line((LEFT, y), (RIGHT, y), FAINT, 1);
        for half in 0..=(self.span.as_millis() / 500) as u32 {
            let x = self.x(self.run.began + half * Duration::from_millis(500));
            self.svg.line((x, y), (x, y + 5.0), FAINT, 1);
            let label = format!("{:.1} s", f64::from(half) / 2.0);
            self.svg.text((x, y + 14.0), Anchor::Middle, 11, FAINT, &label);
        }
    }

    /// Returns the place of a time on the axis; times outside are at the edge.
    fn x(&self, at: Duration) -> f64 {
        let passed = at.saturating_sub(self.run.began).min(self.span);
        LEFT + passed.as_secs_f64() / self.span.as_secs_f64() * (RIGHT - LEFT)
    }

    fn height_of(&self, stock: u32) -> f64 {
        self.top + 34.0 + CURVE - f64::from(stock) * CURVE / f64::from(self.run.sale.items)
    }

    fn lane(&self, worker: u32) -> f64 {
        self.top + 34.0 + CURVE + 10.0 + LANE * f64::from(worker) + LANE / 2.0
    }
}
