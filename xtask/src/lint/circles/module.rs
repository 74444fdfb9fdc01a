//! One module: what it has of its own, and what it borrows.

use std::collections::{BTreeMap, BTreeSet};

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, ItemMacro};

use super::import::imports;

/// A module without its tests and without the modules in it, which stand for themselves.
pub(super) struct Module {
    pub(super) file: String,
    pub(super) items: Vec<Item>,
    /// The names of its own items.
    pub(super) own: BTreeSet<String>,
    /// The names that it imports, and what they mean.
    pub(super) aliases: BTreeMap<String, Vec<String>>,
    /// The modules whose names it imports all.
    pub(super) globs: Vec<Vec<String>>,
}

impl Module {
    pub(super) fn new(file: &str, items: Vec<Item>) -> Self {
        let own = items.iter().filter_map(name).collect();
        let (aliases, globs) = (BTreeMap::new(), Vec::new());
        let mut module = Self { file: file.into(), items: Vec::new(), own, aliases, globs };
        items.iter().for_each(|item| module.import(item));
        module.items = items;
        module
    }

    fn import(&mut self, item: &Item) {
        let Item::Use(item) = item else { return };
        for import in imports(item) {
            match import.name {
                Some(name) => drop(self.aliases.insert(name, import.path)),
                None => self.globs.push(import.path),
            }
        }
    }

    /// The macros that `#[macro_export]` makes names of the crate's root.
    pub(super) fn exported_macros(&self) -> Vec<String> {
        let is_exported = |item: &&ItemMacro| has_attribute(&item.attrs, "macro_export");
        let macros = self.items.iter().filter_map(|item| match item {
            Item::Macro(item) => Some(item),
            _ => None,
        });
        macros
            .filter(is_exported)
            .filter_map(|item| Some(item.ident.as_ref()?.to_string()))
            .collect()
    }
}

/// The name that an item gives to its module.
fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The attributes of an item of a module.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is there for tests alone: `#[cfg(test)]`, also as one of `all(…)`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        attribute.parse_args().is_ok_and(|condition: syn::Meta| demands_test(&condition))
    })
}

fn demands_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            let parts = list.parse_args_with(Punctuated::<_, syn::Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(demands_test))
        }
        _ => false,
    }
}

fn has_attribute(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}
