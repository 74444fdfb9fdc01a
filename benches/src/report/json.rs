//! Writes a line for each figure, and one for each target.

use crate::client::Result;
use crate::figures::Figures;
use crate::targets::Verdict;

pub(crate) fn lines(figures: &Figures, verdicts: &[Verdict]) -> Result<String> {
    let figures = figures.iter().map(serde_json::to_string);
    let lines = figures.chain(verdicts.iter().map(serde_json::to_string));
    let lines = lines.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(lines.join("\n") + "\n")
}
