//! The links of a page of rendered docs.

use std::path::{Path, PathBuf};

/// Where the page begins to repeat what other crates say of their own traits, with links of theirs.
const OF_OTHERS: &str = "id=\"blanket-implementations\"";

/// What the page links to. Its stylesheets and pictures are links as well.
pub(super) fn links(page: &str) -> Vec<String> {
    let ours = page.split(OF_OTHERS).next().unwrap_or_default();
    let parts = ours
        .split("<script")
        .map(|part| part.split_once("</script>").map_or(part, |(_, text)| text));
    let links = parts.flat_map(|part| part.split("href=\"").skip(1));
    links.filter_map(|rest| Some(rest.split_once('"')?.0.replace("&amp;", "&"))).collect()
}

/// The file that a link of `page` leads to.
pub(super) fn target(page: &Path, link: &str) -> PathBuf {
    let file = link.split(['#', '?']).next().unwrap_or_default();
    match file {
        "" => page.to_owned(),
        _ => page.parent().unwrap_or(page).join(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files() {
        let script = r##"<script>`href="${f}"`</script>"##;
        let others = r##"<h2 id="blanket-implementations"><a href="theirs.html">"##;
        let page = r##"<a class="mod" href="x/index.html">x</a><a href="#top">top</a><a href="../y.html?a#b">"##;
        let page = format!("{script}{page}{others}");
        let targets = links(&page).into_iter().map(|link| target(Path::new("doc/a/b.html"), &link));
        let expected = ["doc/a/x/index.html", "doc/a/b.html", "doc/a/../y.html"];
        assert_eq!(targets.collect::<Vec<_>>(), expected.map(PathBuf::from));
    }
}
