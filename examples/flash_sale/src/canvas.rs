//! A sheet to draw on: the few strokes that the picture is made of.

use std::time::Duration;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::sale::Failure;

pub(crate) const INK: RGBColor = RGBColor(45, 55, 72);
pub(crate) const FAINT: RGBColor = RGBColor(113, 128, 150);
pub(crate) const RULE: RGBColor = RGBColor(226, 232, 240);
pub(crate) const SALE: RGBColor = RGBColor(43, 108, 176);
pub(crate) const LOOK: RGBColor = RGBColor(170, 205, 240);
pub(crate) const STOPPED: RGBColor = RGBColor(221, 147, 40);
pub(crate) const OVER: RGBColor = RGBColor(245, 224, 190);
pub(crate) const ALARM: RGBColor = RGBColor(197, 30, 58);
pub(crate) const PAPER: RGBColor = WHITE;

/// A point on the sheet, in pixels from its upper left corner.
pub(crate) type Point = (i32, i32);

pub(crate) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Which end of a text stands at its point.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Middle,
    Right,
}

impl<'a> Canvas<'a> {
    /// A blank sheet, which becomes `svg`.
    pub(crate) fn new(svg: &'a mut String, size: (u32, u32)) -> Result<Self, Failure> {
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&PAPER)?;
        Ok(Self { area })
    }

    pub(crate) fn bar(&self, from: Point, to: Point, color: RGBColor) -> Result<(), Failure> {
        Ok(self.area.draw(&Rectangle::new([from, to], color.filled()))?)
    }

    pub(crate) fn line(&self, points: Vec<Point>, color: RGBColor) -> Result<(), Failure> {
        Ok(self.area.draw(&PathElement::new(points, color.stroke_width(1)))?)
    }

    pub(crate) fn thick_line(&self, points: Vec<Point>, color: RGBColor) -> Result<(), Failure> {
        Ok(self.area.draw(&PathElement::new(points, color.stroke_width(2)))?)
    }

    pub(crate) fn dot(&self, at: Point, color: RGBColor) -> Result<(), Failure> {
        self.area.draw(&Circle::new(at, 6, PAPER.filled()))?;
        Ok(self.area.draw(&Circle::new(at, 5, color.filled()))?)
    }

    /// Writes `text` beside `at`, centred on its height.
    pub(crate) fn text(
        &self,
        (at, align): (Point, Align),
        size: u32,
        color: RGBColor,
        text: &str,
    ) -> Result<(), Failure> {
        let across = match align {
            Align::Left => HPos::Left,
            Align::Middle => HPos::Center,
            Align::Right => HPos::Right,
        };
        // The backend divides sizes by 1.24.
        let font = ("Helvetica, Arial, sans-serif", f64::from(size) * 1.24).into_font();
        let style = font.color(&color).pos(Pos::new(across, VPos::Center));
        Ok(self.area.draw(&Text::new(text.to_owned(), at, style))?)
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        Ok(self.area.present()?)
    }
}

/// From moments to pixels across.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// The pixels that the two stand at.
    pub(crate) left: i32,
    pub(crate) right: i32,
}

impl Scale {
    /// Where a moment stands; moments outside stand at the edge.
    pub(crate) fn x(&self, at: Duration) -> i32 {
        let span = (self.to - self.from).as_secs_f64();
        let passed = at.clamp(self.from, self.to) - self.from;
        let share = passed.as_secs_f64() / span;
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    pub(crate) fn shows(&self, at: Duration) -> bool {
        (self.from..=self.to).contains(&at)
    }
}
