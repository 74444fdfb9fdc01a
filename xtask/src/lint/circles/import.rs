//! What a `use` brings into a module.

use syn::{ItemUse, UseTree};

/// One path of a `use`, which may have several in braces.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// What it is called here. None for `*`: all that is public there, by its own names.
    pub(super) name: Option<String>,
}

/// All paths of a `use`. One that begins with `::` is of another crate, and is left out.
pub(super) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        collect(&item.tree, &[], &mut found);
    }
    found
}

fn collect(tree: &UseTree, before: &[String], found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => collect(&path.tree, &joined(before, &path.ident), found),
        UseTree::Name(name) => found.push(named(joined(before, &name.ident), None)),
        UseTree::Rename(name) => {
            found.push(named(joined(before, &name.ident), Some(name.rename.to_string())));
        }
        UseTree::Glob(_) => found.push(Import { path: before.to_vec(), name: None }),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| collect(tree, before, found));
        }
    }
}

fn joined(before: &[String], segment: &syn::Ident) -> Vec<String> {
    before.iter().cloned().chain([segment.to_string()]).collect()
}

/// `use a::{self}` is `use a`.
fn named(mut path: Vec<String>, name: Option<String>) -> Import {
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned());
    Import { path, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, Option<String>)> {
        let item = syn::parse_str(text).expect("a use");
        imports(&item).into_iter().map(|import| (import.path.join("::"), import.name)).collect()
    }

    #[test]
    fn each_path_of_a_use_is_an_import() {
        let text = "use crate::a::{self, B, c::D as E, f::*};";
        let name = |name: &str| Some(name.to_owned());
        let expected = [
            ("crate::a".to_owned(), name("a")),
            ("crate::a::B".to_owned(), name("B")),
            ("crate::a::c::D".to_owned(), name("E")),
            ("crate::a::f".to_owned(), None),
        ];
        assert_eq!(shown(text), expected);
        assert!(shown("use ::a::B;").is_empty());
    }
}
