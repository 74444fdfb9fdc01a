//! One lane per worker, and a bar in it for each hold of the lock.

use std::time::Duration;

use leasehold::FencingToken;
use plotters::style::RGBColor;

use crate::canvas::{
    ALARM, Align, Canvas, FAINT, INK, LOOK, OVER, PAPER, RULE, SALE, STOPPED, Scale,
};
use crate::played::{Hold, Played, Stop};
use crate::sale::{Failure, WORKERS};

/// How high a lane is, and the bar in it.
const LANE: i32 = 18;
const BAR: i32 = 14;

/// How high all lanes are.
pub(crate) const HEIGHT: i32 = LANE * WORKERS as i32;

/// The lanes of a run, drawn between two moments.
pub(crate) struct Lanes<'a, 'svg> {
    pub(crate) canvas: &'a Canvas<'svg>,
    pub(crate) played: &'a Played,
    pub(crate) scale: Scale,
    pub(crate) top: i32,
}

impl Lanes<'_, '_> {
    pub(crate) fn draw(&self) -> Result<(), Failure> {
        for worker in 0..WORKERS {
            self.lane(worker)?;
        }
        for hold in self.played.holds().iter().filter(|hold| hold.kept) {
            self.bar(hold)?;
        }
        match self.played.stop {
            Some(stop) => self.stopped(&stop),
            None => Ok(()),
        }
    }

    fn lane(&self, worker: u32) -> Result<(), Failure> {
        let (y, scale) = (self.middle(worker), self.scale);
        let label = format!("worker {worker}");
        self.canvas.line(vec![(scale.left, y), (scale.right, y)], RULE)?;
        self.canvas.text(((scale.left - 8, y), Align::Right), 12, INK, &label)
    }

    fn bar(&self, hold: &Hold) -> Result<(), Failure> {
        if !self.scale.shows(hold.from) {
            return Ok(());
        }
        let color = if hold.sold { SALE } else { LOOK };
        let (from, to) = self.block(hold.worker, hold.from, hold.to, color)?;
        match self.scale.shows(hold.to) {
            true => self.inside(hold.worker, (from, to), PAPER, &short(hold.token)),
            false => Ok(()),
        }
    }

    /// The hold of the worker that was stopped: while its lease lasted, and for as long as it went
    /// on believing.
    fn stopped(&self, stop: &Stop) -> Result<(), Failure> {
        let Some(own) = self.played.holds().into_iter().find(|hold| hold.token == stop.token)
        else {
            return Ok(());
        };
        let lease_over = self.played.taken_over().map_or(own.to, |next| next.from);
        let (from, to) = self.block(stop.worker, own.from, lease_over, STOPPED)?;
        let text = format!("stopped; token {}", stop.token);
        self.inside(stop.worker, (from, to), PAPER, &text)?;
        let after = self.block(stop.worker, lease_over, own.to, OVER)?;
        let text = format!("lease over; token {}", short(stop.token));
        self.inside(stop.worker, after, INK, &text)?;
        match self.played.late_write() {
            Some(late) if self.scale.shows(late.at()) => self.late_write(stop.worker, late.at()),
            _ => Ok(()),
        }
    }

    fn late_write(&self, worker: u32, at: Duration) -> Result<(), Failure> {
        let at = (self.scale.x(at), self.middle(worker));
        self.canvas.line(vec![(at.0, self.top), at], ALARM)?;
        self.canvas.dot(at, ALARM)
    }

    /// A bar from one moment to another, at least a pixel wide; says where it stands.
    fn block(
        &self,
        worker: u32,
        from: Duration,
        to: Duration,
        color: RGBColor,
    ) -> Result<(i32, i32), Failure> {
        let (from, to) = (self.scale.x(from), self.scale.x(to));
        let (top, to) = (self.middle(worker) - BAR / 2, to.max(from + 1));
        self.canvas.bar((from, top), (to, top + BAR), color)?;
        Ok((from, to))
    }

    /// Writes into a bar, if it has room.
    fn inside(
        &self,
        worker: u32,
        (from, to): (i32, i32),
        color: RGBColor,
        text: &str,
    ) -> Result<(), Failure> {
        if to - from < text.chars().count() as i32 * 6 {
            return Ok(());
        }
        let middle = ((from + to) / 2, self.middle(worker));
        self.canvas.text((middle, Align::Middle), 11, color, text)
    }

    fn middle(&self, worker: u32) -> i32 {
        self.top + LANE * worker as i32 + LANE / 2
    }
}

/// The digits of a token that change within minutes.
fn short(token: FencingToken) -> String {
    format!("…{:08}", token.get() % 100_000_000)
}

/// A line below, with the time since the doors opened.
pub(crate) fn time_axis(
    canvas: &Canvas<'_>,
    scale: Scale,
    top: i32,
    (began, step): (Duration, Duration),
) -> Result<(), Failure> {
    let mut tick = began;
    while tick <= scale.to {
        if scale.shows(tick) {
            let (x, since) = (scale.x(tick), tick - began);
            canvas.line(vec![(x, top), (x, top + 5)], FAINT)?;
            let label = format!("{:.*} s", decimals(step), since.as_secs_f64());
            canvas.text(((x, top + 14), Align::Middle), 11, FAINT, &label)?;
        }
        tick += step;
    }
    canvas.line(vec![(scale.left, top), (scale.right, top)], FAINT)
}

fn decimals(step: Duration) -> usize {
    if step < Duration::from_millis(100) { 2 } else { 1 }
}
