//! In which file of a crate that stands which a path means.

use std::collections::BTreeSet;

use super::tree::{ModulePath, Tree};

impl Tree {
    /// The file that defines what `path` means in the module `from`; through re-exports, however
    /// many. None if another crate defines it, or a macro.
    pub(super) fn file_of(&self, from: &[String], path: &[String]) -> Option<&str> {
        Search { tree: self, followed: BTreeSet::new() }.file_of(from, path)
    }
}

/// The search for one path.
struct Search<'tree> {
    tree: &'tree Tree,
    /// The imports that were followed: which name of which module. None is followed twice, since
    /// imports may lead back to themselves.
    followed: BTreeSet<(ModulePath, String)>,
}

impl<'tree> Search<'tree> {
    fn file_of(&mut self, from: &[String], path: &[String]) -> Option<&'tree str> {
        match path {
            [first, rest @ ..] if first == "crate" => self.descend(&[], rest),
            [first, rest @ ..] if first == "self" => self.file_of(from, rest),
            [first, rest @ ..] if first == "super" => {
                let (_, parent) = from.split_last()?;
                self.file_of(parent, rest)
            }
            _ => self.descend(from, path),
        }
    }

    /// The file of a path whose first name is one of this module's: that of a module in it, of an
    /// import, or of an item of its own.
    fn descend(&mut self, module: &[String], path: &[String]) -> Option<&'tree str> {
        let tree = self.tree;
        let content = tree.modules.get(module)?;
        let [first, rest @ ..] = path else { return Some(&content.file) };
        let child = [module, std::slice::from_ref(first)].concat();
        if tree.modules.contains_key(&child) {
            return self.descend(&child, rest);
        }
        if content.own.contains(first) {
            return Some(&content.file);
        }
        match content.aliases.get(first) {
            Some(alias) => self.follow(module, first, &[alias, rest].concat()),
            None => content.globs.iter().find_map(|glob| {
                let name = format!("{first} in {}", glob.join("::"));
                self.follow(module, &name, &[glob, path].concat())
            }),
        }
    }

    fn follow(&mut self, module: &[String], name: &str, path: &[String]) -> Option<&'tree str> {
        let is_new = self.followed.insert((module.to_vec(), name.to_owned()));
        if is_new { self.file_of(module, path) } else { None }
    }
}
