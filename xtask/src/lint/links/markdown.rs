//! The links and the headings of a Markdown page.

use std::collections::BTreeSet;

use crate::lint::source::Source;

/// A link of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// What links start from and lead to.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) links: Vec<Link>,
    /// What stands behind the `#` of a link to a heading of this page.
    pub(super) anchors: BTreeSet<String>,
}

impl Page {
    pub(super) fn read(source: &Source) -> Self {
        let mut page = Self { links: Vec::new(), anchors: BTreeSet::new() };
        for (line, text) in prose(&source.text) {
            let targets = targets(&without_code(text));
            page.links.extend(targets.into_iter().map(|target| Link { line, target }));
            if let Some(heading) = heading(text) {
                page.add_anchor(&slug(heading));
            }
        }
        page
    }

    /// A heading that was there before is given a number.
    fn add_anchor(&mut self, slug: &str) {
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let mut names = std::iter::once(slug.to_owned()).chain(numbered);
        self.anchors.extend(names.find(|name| !self.anchors.contains(name)));
    }

    pub(super) fn shown_anchors(&self) -> String {
        let anchors: Vec<_> = self.anchors.iter().map(|anchor| format!("#{anchor}")).collect();
        anchors.join(" ")
    }
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// The line without what stands in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of `[text](target)` and of `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, target)| target.split_whitespace().next());
    inline.chain(defined).map(str::to_owned).collect()
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    (text.len() < line.len()).then(|| text.strip_prefix(' ')).flatten()
}

/// How a heading is called in links: as the usual forges do it.
fn slug(heading: &str) -> String {
    let text = heading.split("](").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    let text: String = text.collect::<String>().trim().chars().filter(kept).collect();
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::read(&Source::new("a.md", text))
    }

    #[test]
    fn links_are_found_where_they_are_links() {
        let text =
            "[a](b.md) and ![c\nd](e.svg \"title\") `[no](x)`\n```\n[no](y)\n```\n[f]: g.md\n";
        let found: Vec<_> =
            page(text).links.into_iter().map(|link| (link.line, link.target)).collect();
        let expected = [(1, "b.md"), (2, "e.svg"), (6, "g.md")];
        assert_eq!(found, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn headings_are_called_as_on_a_forge() {
        let text = "# Why `with`, and not *run*?\n## A & b\n```sh\n# no heading\n```\n## A & b\n";
        let expected = ["a--b", "a--b-1", "why-with-and-not-run"].map(str::to_owned);
        assert_eq!(page(text).anchors, expected.into());
    }
}
