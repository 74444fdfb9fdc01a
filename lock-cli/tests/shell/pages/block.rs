//! Blocks of commands: of the pages, of the help, and of the files in `packaging/`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::packaging;
use crate::shell::Shell;

/// Languages of a page's blocks that a reader may run.
const LANGUAGES: [&str; 3] = ["sh", "console", "ini"];

/// A block of commands.
#[derive(Debug)]
pub(super) struct Block {
    /// The page and the line, or the command whose help has the block.
    pub(super) place: String,
    pub(super) is_console: bool,
    pub(super) text: String,
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the blocks of all pages.
pub(super) fn of_pages() -> Vec<Block> {
    let mut pages = Vec::new();
    for page in ["README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"] {
        pages.extend(Some(root().join(page)).filter(|page| page.exists()));
    }
    for folder in ["docs", "examples", "packaging", "lock-cli", "lock-file", "lock-testkit"] {
        collect(&root().join(folder), &mut pages);
    }
    pages.sort();
    pages.iter().flat_map(|page| of_page(page)).collect()
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn of_page(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).expect("a page");
    let name = path.strip_prefix(root()).expect("below the root").display();
    let (mut blocks, mut lines) = (Vec::new(), text.lines().enumerate());
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```").filter(|word| !word.is_empty())
        else {
            continue;
        };
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let body = body.collect::<Vec<_>>().join("\n") + "\n";
        if LANGUAGES.contains(&language) {
            let place = format!("{name}:{}", number + 1);
            if language == "ini" {
                packaging::assert_starts_again(&place, &body);
            }
            let text = if language == "ini" { started_by(&body) } else { body };
            blocks.push(Block { place, is_console: language == "console", text });
        }
    }
    blocks
}

/// Returns the command lines of a unit of systemd, for a shell.
fn started_by(unit: &str) -> String {
    let lines = unit.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    let line = |line: &str| line.replace("%H", "host").replace("%%", "%").replace("$$", "$");
    lines.map(|text| line(text) + "\n").collect()
}

/// Returns the examples of the help. A line that is indented further continues the one before.
pub(super) async fn of_help() -> Vec<Block> {
    let shell = Shell::without_url();
    let main = shell.run(&["--help"]).await.stdout;
    let (_, commands) = main.split_once("Commands:\n").expect("subcommands");
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut helps = vec![("leasehold".to_owned(), main.clone())];
    for command in commands.filter(|command| !command.is_empty() && *command != "help") {
        helps.push((command.to_owned(), shell.run(&[command, "--help"]).await.stdout));
    }
    helps.iter().flat_map(|(command, help)| examples(command, help)).collect()
}

fn examples(command: &str, help: &str) -> Vec<Block> {
    let section = ["Examples:\n", "Example:\n"].iter().find_map(|title| help.split_once(title));
    let mut blocks: Vec<Block> = Vec::new();
    let lines = section.map_or("", |(_, rest)| rest).lines();
    for line in lines.take_while(|line| !line.is_empty()) {
        let typed = line.trim_start().split("  ").next().unwrap_or_default();
        let text = format!("{typed}\n");
        match blocks.last_mut().filter(|_| line.starts_with("    ")) {
            Some(block) => block.text += &text,
            None => {
                let place = format!("{command} --help: {typed}");
                blocks.push(Block { place, is_console: false, text });
            }
        }
    }
    blocks
}

/// Returns the command lines of the manifests and units.
pub(super) fn of_packaging() -> Vec<Block> {
    let units = packaging::UNITS.iter().map(|unit| {
        let place = format!("packaging/systemd/{unit}");
        let text = started_by(&packaging::read(&format!("systemd/{unit}")));
        Block { place, is_console: false, text }
    });
    let manifests = packaging::MANIFESTS.iter().map(|(path, pod)| {
        let manifest = packaging::manifest(path);
        let container = &manifest.pointer(pod).expect("a pod")["containers"][0];
        let words = ["command", "args"].iter().flat_map(|key| words(&container[key]));
        let words: Vec<String> =
            words.map(|word| word.replace("$(", "").replace(')', "")).collect();
        let text = words.join(" ") + "\n";
        Block { place: format!("packaging/{path}"), is_console: false, text }
    });
    units.filter(|block| !block.text.is_empty()).chain(manifests).collect()
}

fn words(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|word| word.as_str().expect("a text").to_owned()).collect()
}
