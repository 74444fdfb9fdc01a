//! A violation as a drawing: holders, tokens, faults.

use std::fmt::Write;

use super::clock::{MILLI, SECOND};
use super::history::History;
use super::report::Violation;

const WIDTH: u64 = 1200;
const LANE: usize = 24;
/// Width to the left of the lanes.
const MARGIN: u64 = 130;

/// Colours of the holders, in turn.
const COLOURS: [&str; 4] = ["#4a78b0", "#5d9e63", "#b07f3c", "#8a63a8"];

/// Draws the events of a lock around a violation, as SVG: a lane for each client, and one for the faults.
pub(super) fn draw(history: &History, violation: &Violation) -> String {
    let from = violation.from.saturating_sub(SECOND).max(history.start);
    let to = violation.to.min(violation.from + 20 * SECOND) + SECOND;
    let seen = |began: u64, ended: u64| began <= to && ended >= from;
    let holds = history.holds_of(&violation.name);
    let holds: Vec<_> = holds.into_iter().filter(|hold| seen(hold.called, hold.believed)).collect();
    let mut lanes: Vec<&str> = holds.iter().map(|hold| &*hold.who).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let faults: Vec<_> =
        history.faults.iter().filter(|fault| seen(fault.began, fault.ended)).collect();
    let mut sheet = Sheet::new(from, to, lanes.len() + faults.len() + 4);
    let broken = format!("{} broken", violation.clause);
    sheet.bar(1, violation.from, violation.to, "#d33", &broken);
    for (number, hold) in holds.iter().enumerate() {
        let lane = 2 + lanes.iter().position(|who| *who == hold.who).unwrap_or(0);
        sheet.bar(lane, hold.called, hold.granted, "#ddd", "");
        let colour = COLOURS[number % COLOURS.len()];
        sheet.bar(lane, hold.granted, hold.believed, colour, &hold.token.to_string());
    }
    for (number, fault) in faults.iter().enumerate() {
        let text = format!("{} {}", fault.name, fault.whom);
        sheet.bar(2 + lanes.len() + number, fault.began, fault.ended, "#e8b04a", &text);
    }
    for (number, who) in lanes.iter().enumerate() {
        sheet.caption(2 + number, who);
    }
    let span = (to - from) / MILLI;
    sheet.caption(0, &format!("{}: {span} ms from {from}; grey: waits", violation.name));
    sheet.svg + "</svg>\n"
}

/// A drawing of a span of time.
struct Sheet {
    from: u64,
    to: u64,
    svg: String,
}

impl Sheet {
    fn new(from: u64, to: u64, lanes: usize) -> Self {
        let height = lanes * LANE;
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" \
             fill=\"white\"/>\n"
        );
        Self { from, to, svg }
    }

    /// Returns the horizontal place of a moment.
    fn place(&self, at: u64) -> u64 {
        let Self { from, to, .. } = *self;
        MARGIN + (at.clamp(from, to) - from) * (WIDTH - MARGIN - 10) / (to - from)
    }

    fn bar(&mut self, lane: usize, began: u64, ended: u64, colour: &str, text: &str) {
        let (x, y) = (self.place(began), lane * LANE);
        let width = (self.place(ended) - x).max(2);
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{colour}\" \
             fill-opacity=\"0.6\"/><text x=\"{x}\" y=\"{}\">{text}</text>",
            LANE - 6,
            y + LANE / 2
        );
    }

    /// Writes a text at the left end of a lane.
    fn caption(&mut self, lane: usize, text: &str) {
        let y = lane * LANE + LANE / 2;
        let _ = writeln!(self.svg, "<text x=\"4\" y=\"{y}\">{text}</text>");
    }
}
