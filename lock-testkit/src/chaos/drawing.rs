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
    let place =
        |at: u64| MARGIN + (at.clamp(from, to) - from) * (WIDTH - MARGIN - 10) / (to - from);
    let holds = history.holds_of(&violation.name);
    let seen = |began: u64, ended: u64| began <= to && ended >= from;
    let holds: Vec<_> = holds.into_iter().filter(|hold| seen(hold.called, hold.believed)).collect();
    let mut lanes: Vec<&str> = holds.iter().map(|hold| &*hold.who).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let faults: Vec<_> =
        history.faults.iter().filter(|fault| seen(fault.began, fault.ended)).collect();
    let height = (lanes.len() + faults.len() + 4) * LANE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" \
         fill=\"white\"/>\n"
    );
    let mut bar = |lane: usize, began: u64, ended: u64, colour: &str, text: &str| {
        let (x, y, width) = (place(began), lane * LANE, place(ended) - place(began));
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{colour}\" \
             fill-opacity=\"0.6\"/><text x=\"{x}\" y=\"{}\">{text}</text>",
            width.max(2),
            LANE - 6,
            y + LANE / 2
        );
    };
    let top = lanes.len() + 2;
    bar(1, violation.from, violation.to, "#d33", &format!("{} broken", violation.clause));
    for (number, hold) in holds.iter().enumerate() {
        let lane = 2 + lanes.iter().position(|who| *who == hold.who).unwrap_or(0);
        bar(lane, hold.called, hold.granted, "#ddd", "");
        let colour = COLOURS[number % COLOURS.len()];
        bar(lane, hold.granted, hold.believed, colour, &hold.token.to_string());
    }
    for (number, fault) in faults.iter().enumerate() {
        let text = format!("{} {}", fault.name, fault.whom);
        bar(top + number, fault.began, fault.ended, "#e8b04a", &text);
    }
    for (number, who) in lanes.iter().enumerate() {
        let y = (2 + number) * LANE + LANE / 2;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{y}\">{who}</text>");
    }
    let span = (to - from) / MILLI;
    let title = format!("{}: {} ms from {from}; grey: waits", violation.name, span);
    let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">{title}</text>\n</svg>", LANE / 2);
    svg
}
