//! Each rule is broken once, in crates of a few lines.

use super::*;

/// What the check says of a crate of these files, of which `lib.rs` is the root.
fn said_of(files: &[(&str, &str)]) -> Vec<String> {
    said_by(files, &[])
}

fn said_by(files: &[(&str, &str)], orders: &[Order]) -> Vec<String> {
    let sources: Vec<_> =
        files.iter().map(|(file, text)| Source::new(&format!("a/src/{file}"), text)).collect();
    problems_by(&sources, orders).expect("sources that parse")
}

#[track_caller]
fn assert_passes(files: &[(&str, &str)]) {
    let said = said_of(files);
    assert!(said.is_empty(), "{said:?}");
}

/// Asserts that the only circle is this one.
#[track_caller]
fn assert_circle(files: &[(&str, &str)], expected: &str) {
    let said = said_of(files);
    assert_eq!(said.len(), 1, "{said:?}");
    let first = said[0].replace("a/src/", "");
    assert!(first.starts_with(&format!("these files form a circle: {expected}\n")), "{first}");
}

const LIB: (&str, &str) = ("lib.rs", "mod a; mod b;");
const A: (&str, &str) = ("a.rs", "pub struct A;");
const B: (&str, &str) = ("b.rs", "use crate::a::A; pub struct B(A); pub fn b() {}");

#[test]
fn one_direction_passes() {
    assert_passes(&[LIB, A, B]);
}

#[test]
fn a_circle_is_told_with_what_makes_each_arrow() {
    let said = said_of(&[LIB, ("a.rs", "use crate::b::B; pub struct A(B);"), B]);
    let expected = "\
these files form a circle: a/src/a.rs → a/src/b.rs → a/src/a.rs
    a/src/a.rs → a/src/b.rs by `use crate::b::B`
    a/src/b.rs → a/src/a.rs by `use crate::a::A`
    move what both sides need into a file that uses neither";
    assert_eq!(said, [expected]);
}

#[test]
fn the_shortest_way_stands_for_a_larger_circle() {
    let said = said_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::{b::B, c::C}; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
    ]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("a/src/a.rs → a/src/c.rs → a/src/a.rs\n"), "{said:?}");
    assert!(said[0].contains("3 files: a/src/a.rs, a/src/b.rs, a/src/c.rs\n"), "{said:?}");
}

#[test]
fn a_re_export_hides_no_circle() {
    let lib = ("lib.rs", "mod a; mod b; pub use crate::a::A; pub use crate::b::B as C;");
    let (a, b) = (("a.rs", "use crate::C; pub struct A;"), ("b.rs", "use crate::A; pub struct B;"));
    assert_circle(&[lib, a, b], "a.rs → b.rs → a.rs");
}

#[test]
fn a_re_export_by_glob_hides_no_circle() {
    let lib = ("lib.rs", "mod a; mod b; pub use self::a::*; pub use self::b::*;");
    let (a, b) = (("a.rs", "use crate::B; pub struct A;"), ("b.rs", "use crate::*; fn b(a: A) {}"));
    let b = (b.0, &*format!("{} pub struct B;", b.1));
    assert_circle(&[lib, a, b], "a.rs → b.rs → a.rs");
}

#[test]
fn a_re_export_alone_is_no_arrow() {
    let lib = ("lib.rs", "mod a; pub use crate::a::A; pub struct Root;");
    assert_passes(&[lib, ("a.rs", "use crate::Root; pub struct A;")]);
}

#[test]
fn what_a_parent_uses_itself_is_an_arrow() {
    let a = ("a.rs", "use super::Root; pub struct A;");
    let by_import = ("lib.rs", "mod a; use crate::a::A; pub struct Root(A);");
    assert_circle(&[by_import, a], "a.rs → lib.rs → a.rs");
    let by_path = ("lib.rs", "mod a; pub struct Root(a::A);");
    assert_circle(&[by_path, a], "a.rs → lib.rs → a.rs");
    let by_re_export = ("lib.rs", "mod a; pub use self::a::A; pub struct Root(A);");
    assert_circle(&[by_re_export, a], "a.rs → lib.rs → a.rs");
}

#[test]
fn paths_in_functions_types_and_macros_are_arrows() {
    let users = [
        "pub struct A; fn a() { crate::b::b(); }",
        "pub struct A; fn a(b: Vec<super::b::B>) {}",
        "pub struct A; fn a() { assert!(crate::b::B::new()); }",
        "pub struct A; fn a() { use crate::b::B; }",
        "pub struct A; impl crate::b::B for A {}",
    ];
    for text in users {
        assert_circle(&[LIB, ("a.rs", text), B], "a.rs → b.rs → a.rs");
    }
}

#[test]
fn tests_docs_visibility_and_variables_are_no_arrows() {
    let texts = [
        "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        "pub struct A; #[cfg(all(test, unix))] fn a() { crate::b::b() }",
        "pub struct A; impl A { #[cfg(test)] fn a() { crate::b::b() } }",
        "/// See [`crate::b::B`].\npub struct A;",
    ];
    for text in texts {
        assert_passes(&[LIB, ("a.rs", text), B]);
    }
    let lib = ("lib.rs", "mod a; pub struct Root; fn f() { let a = 1; drop(a); }");
    assert_passes(&[lib, ("a.rs", "pub(super) struct A(super::Root); pub(in crate) struct C;")]);
}

#[test]
fn modules_are_found_in_folders_by_path_and_inline() {
    let lib =
        ("lib.rs", "mod a; #[path = \"other/place.rs\"] mod b; mod c { pub use crate::b::B; }");
    let a = ("a/mod.rs", "mod deep; pub use self::deep::A;");
    let deep = ("a/deep.rs", "use crate::c::B; pub struct A;");
    let b = ("other/place.rs", "use crate::a::A; pub struct B;");
    assert_circle(&[lib, a, deep, b], "a/deep.rs → other/place.rs → a/deep.rs");
}

#[test]
fn an_exported_macro_belongs_to_its_file() {
    let lib = ("lib.rs", "mod a; mod b; pub struct Root;");
    let a =
        ("a.rs", "use crate::Root; #[macro_export] macro_rules! make { () => { $crate::b::B } }");
    assert_circle(
        &[lib, a, ("b.rs", "pub struct B; fn b() { crate::make!() }")],
        "a.rs → b.rs → a.rs",
    );
}

#[test]
fn a_module_without_a_file_is_told() {
    let sources = [Source::new("a/src/lib.rs", "mod a;")];
    let failure = problems_by(&sources, &[]).expect_err("a failure");
    assert!(format!("{failure:?}").contains("a/src/lib.rs: the file of `mod a` is not in the"));
}

const ORDER: &[Order] = &[Order { root: "a/src", folders: &["model", "engine"] }];

#[test]
fn an_earlier_folder_may_not_use_a_later_one() {
    let lib = ("lib.rs", "mod client; mod engine; mod model; pub use crate::engine::Engine;");
    let model = ("model/mod.rs", "mod name;");
    let client = ("client.rs", "use crate::Engine;");
    let engine = ("engine.rs", "pub struct Engine(super::model::Model);");
    let said =
        said_by(&[lib, model, client, engine, ("model/name.rs", "use crate::Engine;")], ORDER);
    let expected = "\
a/src/model/name.rs → a/src/engine.rs by `use crate::Engine`: `model` comes before `engine`, and must \
not use it; move what both need to the earlier one";
    assert_eq!(said, [expected]);
}

#[test]
fn what_is_in_no_folder_comes_last() {
    let lib = ("lib.rs", "mod client; mod engine; mod model;");
    let engine = ("engine.rs", "use crate::client::Client;");
    let files = [lib, engine, ("client.rs", "pub struct Client;"), ("model.rs", "")];
    let said = said_by(&files, ORDER);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("`engine` comes before all other files, and must not use"),
        "{said:?}"
    );
}

#[test]
fn a_folder_of_the_order_that_does_not_exist_is_told() {
    let said = said_by(&[("lib.rs", "mod model;"), ("model.rs", "")], ORDER);
    assert_eq!(said, ["a/src: there is no module `engine`, which the order of its folders names"]);
}
