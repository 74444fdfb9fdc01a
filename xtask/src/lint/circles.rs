//! In each crate, files use each other in one direction only: no file uses, through however many
//! others, one that uses it; and where the folders have an order, they keep to it.
//!
//! A file uses another if a path in it means something that the other defines, also through
//! re-exports. A re-export itself uses nothing. Doc comments and tests do not count.

mod arrow;
mod graph;
mod import;
mod layers;
mod module;
mod resolution;
mod tree;

use self::arrow::arrows;
use self::graph::{Circle, circles};
use self::layers::{ORDERS, Order};
use self::tree::Tree;
use crate::lint::source::Source;
use crate::step::Done;

/// All circles and wrong directions of all crates among the sources, with their remedy.
pub(super) fn problems(sources: &[Source]) -> Done<Vec<String>> {
    problems_by(sources, ORDERS)
}

fn problems_by(sources: &[Source], orders: &[Order]) -> Done<Vec<String>> {
    let mut problems = Vec::new();
    for root in sources.iter().filter(|source| is_root(source)) {
        let tree = Tree::read(root, sources)?;
        let arrows = arrows(&tree);
        problems.extend(circles(&arrows).iter().map(shown));
        problems.extend(layers::problems(&tree, &arrows, orders));
    }
    Ok(problems)
}

/// Whether a file is the root of a crate that may have several.
fn is_root(source: &Source) -> bool {
    source.path.ends_with("/lib.rs") || source.path.ends_with("/main.rs")
}

fn shown(Circle { files, way }: &Circle<'_>) -> String {
    let start = way.first().map_or("", |arrow| &arrow.from);
    let path: Vec<_> =
        [start].into_iter().chain(way.iter().map(|arrow| arrow.to.as_str())).collect();
    let mut text = format!("these files form a circle: {}", path.join(" → "));
    for arrow in way {
        text += &format!("\n    {arrow}");
    }
    if files.len() > way.len() {
        let files: Vec<_> = files.iter().copied().collect();
        text += &format!(
            "\n    in larger circles with it, {} files: {}",
            files.len(),
            files.join(", ")
        );
    }
    text + "\n    move what both sides need into a file that uses neither"
}

#[cfg(test)]
mod tests;
