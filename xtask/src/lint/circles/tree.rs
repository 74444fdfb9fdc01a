//! The modules of a crate, and the files they are in.

use std::collections::BTreeMap;

use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta};

use super::module::{Module, attributes, is_for_tests};
use crate::lint::source::Source;
use crate::step::{Done, Failure};

/// The names of a module and those around it, from the root on: `crate::a::b` is `[a, b]`.
pub(super) type ModulePath = Vec<String>;

/// A crate by its modules. The modules for tests are left out.
pub(super) struct Tree {
    /// The folder of the root file.
    pub(super) folder: String,
    pub(super) modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    /// Reads a crate, beginning at its root file, from these sources.
    pub(super) fn read(root: &Source, sources: &[Source]) -> Done<Self> {
        let folder = folder(&root.path).to_owned();
        let mut tree = Self { folder: folder.clone(), modules: BTreeMap::new() };
        let place = Place { module: Vec::new(), file: root.path.clone(), folder };
        tree.add_file(place, root, sources)?;
        tree.lift_exported_macros();
        Ok(tree)
    }

    fn add_file(&mut self, place: Place, source: &Source, sources: &[Source]) -> Done {
        let parsed = syn::parse_file(&source.text)
            .map_err(|error| Failure::new(format!("cannot parse {}: {error}", source.path)))?;
        self.add(place, parsed.items, sources)
    }

    fn add(&mut self, place: Place, items: Vec<Item>, sources: &[Source]) -> Done {
        let kept = items.into_iter().filter(|item| !is_for_tests(attributes(item)));
        let (modules, items): (Vec<_>, _) = kept.partition(|item| matches!(item, Item::Mod(_)));
        for item in modules {
            if let Item::Mod(module) = item {
                self.add_child(&place, module, sources)?;
            }
        }
        self.modules.insert(place.module, Module::new(&place.file, items));
        Ok(())
    }

    fn add_child(&mut self, parent: &Place, item: ItemMod, sources: &[Source]) -> Done {
        let child = parent.child(&item.ident.to_string());
        if let Some((_, items)) = item.content {
            return self.add(child, items, sources);
        }
        let candidates = candidates(parent, &child, &item.attrs);
        let source = sources.iter().find(|source| candidates.contains(&source.path));
        let source = source.ok_or_else(|| {
            let (name, file) = (&item.ident, &parent.file);
            Failure::new(format!("{file}: the file of `mod {name}` is not in the workspace"))
        })?;
        self.add_file(child.in_file(&source.path), source, sources)
    }

    /// `#[macro_export]` makes a macro a name of the root, wherever it stands.
    fn lift_exported_macros(&mut self) {
        let mut lifted = Vec::new();
        for (path, module) in &self.modules {
            for name in module.exported_macros() {
                let mut full = vec!["crate".to_owned()];
                full.extend(path.iter().chain([&name]).cloned());
                lifted.push((name, full));
            }
        }
        if let Some(root) = self.modules.get_mut(&ModulePath::new()) {
            root.aliases.extend(lifted);
        }
    }
}

/// Where a module is.
struct Place {
    module: ModulePath,
    file: String,
    /// Where the files of the modules in it are.
    folder: String,
}

impl Place {
    /// A module in this one, in the same file for now.
    fn child(&self, name: &str) -> Self {
        Self {
            module: self.module.iter().cloned().chain([name.to_owned()]).collect(),
            file: self.file.clone(),
            folder: format!("{}/{name}", self.folder),
        }
    }

    /// The same module in a file of its own.
    fn in_file(self, file: &str) -> Self {
        let folder = match file.ends_with("/mod.rs") {
            true => folder(file).to_owned(),
            false => self.folder,
        };
        Self { file: file.to_owned(), folder, ..self }
    }
}

/// The files that `mod child;` may mean.
fn candidates(parent: &Place, child: &Place, attributes: &[Attribute]) -> Vec<String> {
    match attributes.iter().find_map(named_file) {
        Some(path) => vec![normalised(&format!("{}/{path}", folder(&parent.file)))],
        None => vec![format!("{}.rs", child.folder), format!("{}/mod.rs", child.folder)],
    }
}

/// The file of `#[path = "…"]`, also as part of a `cfg_attr`.
fn named_file(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("path") => text(&meta.value),
        Meta::List(meta) if meta.path.is_ident("cfg_attr") => {
            let tokens = meta.tokens.to_string();
            let (_, value) = tokens.split_once("path = \"")?;
            value.split_once('"').map(|(file, _)| file.to_owned())
        }
        _ => None,
    }
}

fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Without `..`.
fn normalised(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
