//! Draws the hand-off of each backend: the time for which the lock is free, by the number of clients.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::RGBColor;

use crate::backend::Backend;
use crate::client::Result;
use crate::figures::{Case, Figures, Key, P50};
use crate::workloads::handoff;

/// A panel's width and height in pixels.
const PANEL: (u32, u32) = (480, 280);

/// Width of the column of names, beside the curves.
const NAMES: i32 = 150;

const INK: RGBColor = RGBColor(45, 55, 72);
const BLUE: RGBColor = RGBColor(43, 108, 176);

/// Colours of the floor, the project and the others, in the order of their names.
const COLORS: [RGBColor; 5] = [
    RGBColor(150, 160, 175),
    BLUE,
    RGBColor(221, 147, 40),
    RGBColor(197, 30, 58),
    RGBColor(95, 75, 140),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One line of a panel: the p50 in µs for each number of clients.
struct Curve {
    who: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

pub(crate) fn svg(figures: &Figures) -> Result<String> {
    // A single curve shows no comparison.
    let panels = Backend::STORES.map(|backend| (backend, curves(figures, backend)));
    let panels: Vec<_> = panels.into_iter().filter(|(_, curves)| curves.len() > 1).collect();
    let (columns, rows) = (2, panels.len().div_ceil(2).max(1));
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32);
    let mut svg = String::new();
    let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    sheet.fill(&WHITE)?;
    for (area, (backend, curves)) in sheet.split_evenly((rows, columns)).iter().zip(&panels) {
        panel(area, *backend, curves)?;
    }
    sheet.present()?;
    drop(sheet);
    Ok(svg)
}

fn curves(figures: &Figures, backend: Backend) -> Vec<Curve> {
    let contenders = backend.contenders().iter().map(|contender| contender.name);
    let all = [backend.wake_up()].into_iter().chain(contenders).zip(COLORS);
    let curves =
        all.map(|(who, color)| Curve { who, color, points: points(figures, backend, who) });
    curves.filter(|curve| !curve.points.is_empty()).collect()
}

/// Numbers of clients are drawn at equal distances.
fn points(figures: &Figures, backend: Backend, peer: &'static str) -> Vec<(f64, f64)> {
    let at = |(place, workers): (usize, usize)| {
        let case = Case { name: handoff::NAME, workers };
        let p50 = figures.median(Key { backend, case, peer, figure: P50 })?;
        Some((place as f64, p50))
    };
    handoff::CLIENTS.into_iter().enumerate().filter_map(at).collect()
}

fn panel(area: &Area<'_>, backend: Backend, curves: &[Curve]) -> Result<()> {
    let powers = || curves.iter().flat_map(|curve| &curve.points).map(|(_, p50)| p50.log10());
    let low = powers().map(f64::floor).fold(f64::MAX, f64::min);
    let high = powers().map(f64::ceil).fold(low + 1.0, f64::max);
    let last = (handoff::CLIENTS.len() - 1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}: hand-off, p50 in µs", backend.name()), text(16, INK))
        .margin(12)
        .margin_right(NAMES)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..last, (10f64.powf(low)..10f64.powf(high)).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(handoff::CLIENTS.len())
        .x_desc("clients")
        .y_labels(6)
        .label_style(text(12, INK))
        .y_label_formatter(&|p50| format!("{p50:.0}"))
        .x_label_formatter(&|place| clients_at(*place))
        .draw()?;
    for (place, Curve { who, color, points }) in curves.iter().enumerate() {
        let width = if *color == BLUE { 3 } else { 2 };
        chart.draw_series([PathElement::new(points.clone(), color.stroke_width(width))])?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
        let at = (PANEL.0 as i32 - NAMES + 10, 48 + 18 * place as i32);
        area.draw(&Text::new(*who, at, text(12, *color)))?;
    }
    Ok(())
}

fn clients_at(place: f64) -> String {
    let clients = handoff::CLIENTS.get(place.round() as usize);
    clients.map(usize::to_string).unwrap_or_default()
}

/// The backend divides sizes by 1.24.
fn text(size: u32, color: RGBColor) -> TextStyle<'static> {
    ("Helvetica, Arial, sans-serif", f64::from(size) * 1.24).into_font().color(&color)
}
