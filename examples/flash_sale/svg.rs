//! The shapes of the picture.

use std::fmt::Write as _;

/// A point, in pixels from the upper left corner.
type Point = (f64, f64);

/// The part of a text that stands at its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Svg {
    text: String,
}

impl Svg {
    /// Creates a blank sheet.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        let mut svg = Self { text: String::new() };
        svg.put(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif">"#
        ));
        svg.bar((0.0, 0.0), (width.into(), height.into()), "white");
        svg
    }

    pub(crate) fn bar(&mut self, (x, y): Point, (width, height): Point, color: &str) {
        self.put(format_args!(
            r#"<rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{height:.1}" fill="{color}"/>"#
        ));
    }

    pub(crate) fn line(&mut self, (x, y): Point, (to_x, to_y): Point, color: &str, width: u32) {
        self.put(format_args!(
            r#"<path d="M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}" stroke="{color}" stroke-width="{width}"/>"#
        ));
    }

    pub(crate) fn dot(&mut self, (x, y): Point, color: &str) {
        self.put(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="5" fill="{color}" stroke="white"/>"#
        ));
    }

    /// Writes `text`, vertically centred on its point. The text must not need escapes.
    pub(crate) fn text(
        &mut self,
        (x, y): Point,
        anchor: Anchor,
        size: u32,
        color: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" dy="0.35em" font-size="{size}" fill="{color}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.put(format_args!("</svg>"));
        self.text
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{what}");
    }
}
