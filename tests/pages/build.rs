//! Prepares the code blocks of the README and of the pages for rustdoc, which compiles and runs them.
//!
//! A page shows the lines that its reader needs. A block without `fn main` becomes the body of an asynchronous one,
//! with `?`. A comment before a block has lines that go before it, and after `...` lines that go behind it:
//!
//! ````text
//! <!-- rust
//! let locks = leasehold::connect("memory:").await?;
//! ...
//! assert!(locks.try_acquire("report").await?.is_none());
//! -->
//! ```rust
//! locks.with("report", async |_| write_the_report().await).await?;
//! ```
//! ````

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

const MAIN: &str = "#[tokio::main(flavor = \"current_thread\")] \
    async fn main() -> Result<(), Box<dyn std::error::Error>> {";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("lock-testkit/README.md")];
    collect(&root.join("docs"), &mut pages)?;
    pages.sort();
    let mut modules = String::new();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for (number, page) in pages.iter().enumerate() {
        println!("cargo::rerun-if-changed={}", page.display());
        let name = page.strip_prefix(&root)?.display().to_string().replace(['/', '-', '.'], "_");
        let file = out.join(format!("{number}.md"));
        fs::write(&file, prepared(&fs::read_to_string(page)?))?;
        let file = file.display();
        modules += &format!(
            "#[doc = include_str!({:?})]\npub mod {} {{}}\n",
            file.to_string(),
            name.to_lowercase()
        );
    }
    Ok(fs::write(out.join("pages.rs"), modules)?)
}

/// Adds the Markdown files in `folder` and below to `pages`.
fn collect(folder: &Path, pages: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}

/// Returns the page with all lines of its code blocks.
fn prepared(page: &str) -> String {
    let (mut prepared, mut around) = (String::new(), (Vec::new(), Vec::new()));
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == "<!-- rust" {
            around = split(lines.by_ref().take_while(|line| *line != "-->").collect());
        } else if line.starts_with("```rust") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let (before, behind) = std::mem::take(&mut around);
            block(&mut prepared, line, &before, &body, &behind);
        } else {
            prepared += line;
            prepared += "\n";
        }
    }
    prepared
}

fn split(lines: Vec<&str>) -> (Vec<&str>, Vec<&str>) {
    let middle = lines.iter().position(|line| *line == "...").unwrap_or(lines.len());
    (lines[..middle].to_vec(), lines.into_iter().skip(middle + 1).collect())
}

fn block(page: &mut String, fence: &str, before: &[&str], body: &[&str], behind: &[&str]) {
    let has_main = [before, body, behind].concat().iter().any(|line| line.contains("fn main("));
    let (main, end) = if has_main { ("", "") } else { (MAIN, "Ok(()) }") };
    *page += &format!("{fence}\n# {main}\n");
    before.iter().for_each(|line| *page += &format!("# {line}\n"));
    body.iter().for_each(|line| *page += &format!("{line}\n"));
    behind.iter().for_each(|line| *page += &format!("# {line}\n"));
    *page += &format!("# {end}\n```\n");
}
