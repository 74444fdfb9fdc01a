//! The order of a crate's folders: what stands earlier does not use what stands later.

use super::arrow::Arrow;
use super::tree::Tree;

/// The order of folders in a crate, given by the folder of its root file. All that is in none of
/// them comes last.
pub(super) struct Order {
    pub(super) root: &'static str,
    pub(super) folders: &'static [&'static str],
}

pub(super) const ORDERS: &[Order] =
    &[Order { root: "lock-core/src", folders: &["model", "backend", "engine"] }];

/// What breaks the order of a crate, if it has one.
pub(super) fn problems(tree: &Tree, arrows: &[Arrow], orders: &[Order]) -> Vec<String> {
    let Some(order) = orders.iter().find(|order| order.root == tree.folder) else {
        return Vec::new();
    };
    let missing = order.folders.iter().filter_map(|folder| order.missing(folder, tree));
    let wrong = arrows.iter().filter_map(|arrow| order.wrong(arrow));
    missing.chain(wrong).collect()
}

impl Order {
    fn missing(&self, folder: &str, tree: &Tree) -> Option<String> {
        let is_there = tree.modules.contains_key([folder.to_owned()].as_slice());
        (!is_there).then(|| {
            let root = self.root;
            format!("{root}: there is no module `{folder}`, which the order of its folders names")
        })
    }

    fn wrong(&self, arrow: &Arrow) -> Option<String> {
        let (from, to) = (self.layer(&arrow.from), self.layer(&arrow.to));
        (from < to).then(|| {
            format!(
                "{arrow}: {} comes before {}, and must not use it; move what both need to the \
                 earlier one",
                self.name(from),
                self.name(to)
            )
        })
    }

    /// The place of a file's folder in the order.
    fn layer(&self, file: &str) -> usize {
        let inside = file.strip_prefix(self.root).unwrap_or(file).trim_start_matches('/');
        let first = inside.split('/').next().unwrap_or(inside);
        let folder = first.strip_suffix(".rs").unwrap_or(first);
        self.folders.iter().position(|name| *name == folder).unwrap_or(self.folders.len())
    }

    fn name(&self, layer: usize) -> String {
        match self.folders.get(layer) {
            Some(folder) => format!("`{folder}`"),
            None => "all other files".into(),
        }
    }
}
