//! No link is dead: neither in the pages of the repository, nor in the rendered docs.
//!
//! Links to other hosts are not followed.

mod html;
mod markdown;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use self::markdown::Page;
use crate::lint::source::Source;
use crate::step::Done;
use crate::workspace::{self, root, target};

/// The links in Markdown files that lead to no file, or to no heading, a sentence each.
pub(super) fn dead_in_pages(sources: &[Source]) -> Vec<String> {
    let pages: BTreeMap<_, _> =
        sources.iter().map(|source| (PathBuf::from(&source.path), Page::read(source))).collect();
    let dead = |(path, page): (&PathBuf, &Page)| -> Vec<_> {
        let links = page.links.iter().filter(|link| is_local(&link.target));
        let told = links.filter_map(|link| {
            let why = why_dead(path, &link.target, &pages)?;
            Some(format!("{}:{}: `{}` {why}", path.display(), link.line, link.target))
        });
        told.collect()
    };
    pages.iter().flat_map(dead).collect()
}

/// What is wrong with a link of the page at `from`, if something is.
fn why_dead(from: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match file {
        "" => from.to_owned(),
        _ => normal(&from.parent()?.join(file)),
    };
    if !root().join(&path).exists() && !pages.contains_key(&path) {
        return Some(format!("leads to no file: there is no {}", path.display()));
    }
    let page = pages.get(&path).filter(|_| !anchor.is_empty())?;
    (!page.anchors.contains(anchor))
        .then(|| format!("leads to no heading: {} has {}", path.display(), page.shown_anchors()))
}

/// Empties the folders of our crates' docs, in which pages of what is gone would stay. The folders stay: a crate
/// that is documented before those that it links to must find them.
pub(super) fn empty_docs() -> Done {
    for folder in doc_folders()? {
        if folder.is_dir() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
    }
    Ok(())
}

/// The links in the docs of our crates that lead to no file, a sentence each.
pub(super) fn dead_in_docs() -> Done<Vec<String>> {
    let mut dead = Vec::new();
    for folder in doc_folders()? {
        for page in pages_below(&folder)? {
            let text = fs::read_to_string(&page)?;
            let links = html::links(&text).into_iter().filter(|link| is_local(link));
            let missing = links.filter(|link| !html::target(&page, link).exists());
            dead.extend(missing.map(|link| format!("{}: `{link}` is dead", page.display())));
        }
    }
    Ok(dead)
}

/// Where `cargo doc` writes our crates: the facade, and a crate for each folder with a manifest.
fn doc_folders() -> Done<Vec<PathBuf>> {
    let files = workspace::files()?;
    let folders = files.iter().filter_map(|path| path.to_str()?.strip_suffix("/Cargo.toml"));
    let names = folders.map(|folder| folder.rsplit('/').next().unwrap_or(folder).replace('-', "_"));
    let crates = names.chain(["leasehold".to_owned()]);
    Ok(crates.map(|name| target().join("doc").join(name)).collect())
}

fn pages_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension() {
            _ if path.is_dir() => pages.extend(pages_below(&path)?),
            Some(end) if end == "html" => pages.push(path),
            _ => {}
        }
    }
    Ok(pages)
}

/// Whether a link leads to a file beside ours, or within our own.
fn is_local(link: &str) -> bool {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    !link.starts_with("//")
        && !link.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(is_scheme))
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(pages: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = pages.iter().map(|(path, text)| Source::new(path, text)).collect();
        dead_in_pages(&sources)
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_dead() {
        let told =
            dead(&[("docs/one.md", "# One\n\nsee [two](two.md) and [the top](../nowhere)\n")]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("docs/one.md:3: `two.md` leads to no file"), "{told:?}");
    }

    #[test]
    fn a_link_to_a_page_and_its_headings_is_alive() {
        let one =
            "[two](../two.md#a--b) [here](#one) [far](https://example.com/x) [folder](.)\n# One\n";
        assert_eq!(dead(&[("docs/one.md", one), ("two.md", "## A & `b`\n")]), [""; 0]);
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_dead() {
        let told = dead(&[("one.md", "# One\n[x](#two)\n")]);
        assert_eq!(told, ["one.md:2: `#two` leads to no heading: one.md has #one"]);
    }

    #[test]
    fn links_to_other_hosts_are_not_followed() {
        for far in ["https://a/b", "mailto:a@b", "//a/b", "javascript:void(0)"] {
            assert!(!is_local(far), "{far}");
        }
        for near in ["a.md", "../a:b/c.html", "#a", "struct.A.html#method.b"] {
            assert!(is_local(near), "{near}");
        }
    }
}
