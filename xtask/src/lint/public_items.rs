//! Compares the public items of the published packages with listings, so that a change of the API is visible and
//! intended.
//!
//! Lists items that are `pub`, since the lint `unreachable_pub` refuses `pub` where users cannot reach it. Items
//! that a macro makes are not listed.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Fields, Generics, Ident, ImplItem, Item, ItemImpl, ItemTrait, TraitItem, Type,
    Visibility,
};

use crate::lint::source::{self, Source};
use crate::step::{Done, Failure};
use crate::workspace::root;

/// The folders of the packages' sources.
const FOLDERS: &[&str] = &[
    "src", "lock-core/src", "lock-etcd/src", "lock-file/src", "lock-postgres/src",
    "lock-redis/src", "lock-zookeeper/src",
];

/// Returns the packages whose public items differ from their listing, one sentence each.
pub(super) fn problems(sources: &[Source]) -> Done<Vec<String>> {
    let mut problems = Vec::new();
    for folder in FOLDERS {
        let path = path(folder);
        let accepted = source::read(&*path).map(|listing| listing.text).unwrap_or_default();
        let (items, accepted) =
            (items(sources, folder)?, accepted.lines().map(str::to_owned).collect());
        let added = items.difference(&accepted).map(|item| format!("\n    + {item}"));
        let removed = accepted.difference(&items).map(|item| format!("\n    - {item}"));
        let changes: String = added.chain(removed).collect();
        if !changes.is_empty() {
            problems.push(format!(
                "{path}: the public items have changed: `cargo xtask public-items` lists them anew{changes}"
            ));
        }
    }
    Ok(problems)
}

/// Writes all listings again.
pub(crate) fn accept() -> Done {
    let sources = source::with_endings(&[".rs"])?;
    for folder in FOLDERS {
        let lines = items(&sources, folder)?.into_iter().map(|item| item + "\n");
        fs::write(root().join(path(folder)), lines.collect::<String>())?;
    }
    Ok(())
}

/// Returns the path of the listing.
fn path(folder: &str) -> String {
    let package = folder.strip_suffix("/src").unwrap_or("leasehold");
    format!("docs/notes/public_items/{package}.txt")
}

/// Returns the public items of the Rust sources in a folder, one line each.
fn items(sources: &[Source], folder: &str) -> Done<BTreeSet<String>> {
    let mut listing = Listing::default();
    let is_rust = |source: &&Source| source.is_in(folder) && source.path.ends_with(".rs");
    for source in sources.iter().filter(is_rust) {
        let file = syn::parse_file(&source.text)
            .map_err(|error| Failure::new(format!("cannot parse {}: {error}", source.path)))?;
        listing.visit_file(&file);
    }
    let Listing { mut lines, types, impls } = listing;
    let of_public = impls.into_iter().filter(|(name, _)| types.contains(name));
    lines.extend(of_public.map(|(name, line)| format!("{name}: {line}")));
    Ok(lines)
}

#[derive(Default)]
struct Listing {
    lines: BTreeSet<String>,
    /// Names of the public types.
    types: BTreeSet<String>,
    /// Traits and type names of all impls.
    impls: Vec<(String, String)>,
}

impl Listing {
    fn add(&mut self, vis: &Visibility, name: impl Display, what: impl Display) {
        if matches!(vis, Visibility::Public(_)) {
            self.lines.insert(format!("{name}: {what}"));
        }
    }

    fn add_type(&mut self, kind: &str, vis: &Visibility, name: &Ident, generics: &Generics) {
        self.add(vis, name, format!("{kind} {name}{}", text(generics)));
        if matches!(vis, Visibility::Public(_)) {
            self.types.insert(name.to_string());
        }
    }

    /// Adds the derived traits of a type, and `non_exhaustive`.
    fn add_attributes(&mut self, name: &Ident, attributes: &[Attribute]) {
        let told = ["derive", "non_exhaustive"];
        let told =
            attributes.iter().filter(|one| told.iter().any(|path| one.path().is_ident(path)));
        self.impls.extend(told.map(|one| (name.to_string(), text(one))));
    }

    /// Adds the public fields, or the fields of a variant of a public enum.
    fn add_fields(&mut self, of: &str, fields: &Fields, variant_of: Option<&Visibility>) {
        for (index, field) in fields.iter().enumerate() {
            let name = field.ident.as_ref().map_or(index.to_string(), Ident::to_string);
            self.add(variant_of.unwrap_or(&field.vis), format!("{of}.{name}"), text(&field.ty));
        }
    }

    fn add_trait(&mut self, item: &ItemTrait) {
        self.add_type("trait", &item.vis, &item.ident, &item.generics);
        for part in &item.items {
            let TraitItem::Fn(part) = part else { continue };
            let body = part.default.as_ref().map_or("", |_| " { … }");
            let name = format!("{}::{}", item.ident, part.sig.ident);
            self.add(&item.vis, name, text(&part.sig) + body);
        }
    }

    fn add_impl(&mut self, block: &ItemImpl) {
        let Type::Path(this) = &*block.self_ty else { return };
        let Some(name) = this.path.segments.last().map(|part| part.ident.to_string()) else {
            return;
        };
        if let Some((path, _)) = &block.trait_ {
            self.impls.push((name, format!("impl {} for {}", text(path), text(this))));
            return;
        }
        for part in &block.items {
            match part {
                ImplItem::Fn(part) => {
                    self.add(&part.vis, format!("{name}::{}", part.sig.ident), text(&part.sig));
                }
                ImplItem::Const(part) => {
                    self.add(&part.vis, format!("{name}::{}", part.ident), text(&part.ty));
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Listing {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Const(item) => self.add(&item.vis, &item.ident, text(&item.ty)),
            Item::Fn(item) => self.add(&item.vis, &item.sig.ident, text(&item.sig)),
            Item::Type(item) => self.add(&item.vis, &item.ident, text(&item.ty)),
            Item::Use(item) => self.add(&item.vis, "use", text(&item.tree)),
            Item::Struct(item) => {
                self.add_type("struct", &item.vis, &item.ident, &item.generics);
                self.add_attributes(&item.ident, &item.attrs);
                self.add_fields(&item.ident.to_string(), &item.fields, None);
            }
            Item::Enum(item) => {
                self.add_type("enum", &item.vis, &item.ident, &item.generics);
                self.add_attributes(&item.ident, &item.attrs);
                for variant in &item.variants {
                    let name = format!("{}::{}", item.ident, variant.ident);
                    self.add(&item.vis, &name, "variant");
                    self.add_fields(&name, &variant.fields, Some(&item.vis));
                }
            }
            Item::Trait(item) => self.add_trait(item),
            Item::Impl(block) => self.add_impl(block),
            Item::Mod(module) if module.attrs.iter().any(|one| text(one) == "#[cfg(test)]") => {}
            Item::Mod(module) => {
                self.add(&module.vis, &module.ident, "mod");
                visit::visit_item_mod(self, module);
            }
            _ => {}
        }
    }
}

/// Returns the text of a piece of code, on one line and without comments.
fn text(part: &impl ToTokens) -> String {
    const SPACES: [(&str, &str); 17] = [
        (" ::", "::"),
        (":: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("->", " ->"),
        (" ,", ","),
        (" :", ":"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
        ("[ ", "["),
        (" ]", "]"),
        ("# ", "#"),
        ("  ", " "),
        (", )", ")"),
    ];
    let text = part.to_token_stream().to_string();
    SPACES.iter().fold(text, |text, (spaced, tight)| text.replace(spaced, tight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items_of(text: &str) -> Vec<String> {
        let sources = [Source::new("lock-file/src/a.rs", text)];
        items(&sources, "lock-file/src").expect("sources that parse").into_iter().collect()
    }

    #[test]
    fn what_is_public_is_listed_and_nothing_else() {
        let listed = items_of(
            "/// A.\n#[derive(Clone)] pub struct A { pub a: u8, b: u8 }\n\
             impl A { /// B.\n pub fn b(&self) -> Option<&A> { None } fn c() {} }\n\
             impl Drop for A { fn drop(&mut self) {} }\n\
             struct B; impl Drop for B { fn drop(&mut self) {} }\n\
             pub(crate) fn d() {} pub enum E { F(u8) } pub trait T { fn t(&self); }\n\
             #[cfg(test)] mod tests { pub struct G; } mod h { pub use super::A; }",
        );
        let expected = [
            "A.a: u8",
            "A: #[derive(Clone)]",
            "A: impl Drop for A",
            "A: struct A",
            "A::b: fn b(&self) -> Option<&A>",
            "E: enum E",
            "E::F.0: u8",
            "E::F: variant",
            "T: trait T",
            "T::t: fn t(&self)",
            "use: super::A",
        ];
        assert_eq!(listed, expected);
    }
}
