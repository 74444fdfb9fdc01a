//! Which file uses which.

use std::collections::BTreeMap;
use std::fmt;

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, Macro, Path, Visibility};

use super::import::imports;
use super::module::{attributes, is_for_tests};
use super::tree::{ModulePath, Tree};

/// A file that uses another of the same crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    /// The text that makes it so.
    by: String,
}

impl fmt::Display for Arrow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, by } = self;
        write!(out, "{from} → {to} by `{by}`")
    }
}

/// All arrows of a crate, one from a file to another. What tests and doc comments use makes none.
pub(super) fn arrows(tree: &Tree) -> Vec<Arrow> {
    let mut found = BTreeMap::new();
    for (path, module) in &tree.modules {
        let mut uses = Uses { tree, path, file: &module.file, found: &mut found };
        module.items.iter().for_each(|item| uses.visit_item(item));
    }
    found.into_values().collect()
}

/// The walk through the items of one module.
struct Uses<'walk> {
    tree: &'walk Tree,
    path: &'walk ModulePath,
    file: &'walk str,
    found: &'walk mut BTreeMap<(String, String), Arrow>,
}

impl Uses<'_> {
    /// Notes that `path` is used, if it is of another file of this crate.
    fn note(&mut self, path: &[String], by: &str) {
        let file = self.tree.file_of(self.path, path).filter(|file| *file != self.file);
        let Some(to) = file.map(str::to_owned) else { return };
        let (from, by) = (self.file.to_owned(), format!("{by}{}", path.join("::")));
        self.found.entry((from.clone(), to.clone())).or_insert(Arrow { from, to, by });
    }

    /// A name alone may be that of a variable, and then it is not that of a module.
    fn is_a_module_alone(&self, path: &[String]) -> bool {
        let [name] = path else { return false };
        let child = [self.path.as_slice(), std::slice::from_ref(name)].concat();
        is_keyword(name) || self.tree.modules.contains_key(&child)
    }
}

impl Visit<'_> for Uses<'_> {
    fn visit_item(&mut self, item: &Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    /// A re-export is a second name of the thing, and uses nothing: those who import the name use
    /// the file that it comes from.
    fn visit_item_use(&mut self, item: &ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            imports(item).iter().for_each(|import| self.note(&import.path, "use "));
        }
    }

    fn visit_path(&mut self, path: &Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if path.leading_colon.is_none() && !self.is_a_module_alone(&names) {
            self.note(&names, "");
        }
        visit::visit_path(self, path);
    }

    /// What stands in a macro's brackets is no syntax yet, but its full paths can be told.
    fn visit_macro(&mut self, item: &Macro) {
        for path in full_paths(&item.tokens.to_string()) {
            self.note(&path, "");
        }
        visit::visit_macro(self, item);
    }

    /// `pub(super)` uses nothing.
    fn visit_visibility(&mut self, _: &Visibility) {}

    fn visit_attribute(&mut self, _: &Attribute) {}
}

fn is_keyword(name: &str) -> bool {
    matches!(name, "crate" | "self" | "super")
}

/// The paths in a text that begin with `crate`, `self` or `super`.
fn full_paths(text: &str) -> Vec<Vec<String>> {
    let text = text.replace(" :: ", "::");
    let words = text.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
    let paths = words.map(|word| word.split("::").map(String::from).collect());
    paths.filter(|path: &Vec<String>| path.len() > 1 && is_keyword(&path[0])).collect()
}
