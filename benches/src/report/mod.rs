//! Reports of the figures.

mod json;
mod picture;
mod readme;
mod scaling;
mod table;

use std::fs;

use crate::client::Result;
use crate::figures::Figures;
use crate::options::Options;
use crate::targets;

pub(crate) use self::table::lines;

/// Prints the verdicts on the targets, and writes the requested files.
pub(crate) fn write(figures: &Figures, options: &Options) -> Result<()> {
    let verdicts = targets::verdicts(figures, options.effort());
    table::verdicts(&verdicts);
    if let Some(path) = &options.json {
        fs::write(path, json::lines(figures, &verdicts)?)?;
    }
    if let Some(path) = &options.svg {
        fs::write(path, picture::svg(figures)?)?;
    }
    match options.readme {
        true => readme::write(figures, &verdicts, options),
        false => Ok(()),
    }
}
