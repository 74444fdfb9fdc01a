//! Commands that build or install. They are not run: what they name must exist.

use std::fs;
use std::path::Path;

use super::block::root;

/// Programs that build or install, or start a server.
const PROGRAMS: [&str; 8] =
    ["cargo", "docker", "git", "install", "kubectl", "memcached", "systemctl", "unshare"];

/// Folder of the programs that a page builds first.
const BUILT: &str = "target/";

/// Packages of others that a page installs.
const FOREIGN: [&str; 1] = ["cargo-mutants"];

/// Returns true if the command line is not run: each of its programs builds or installs, or prints for such a program.
pub(super) fn is_named(line: &str) -> bool {
    let programs: Vec<&str> = line.split(['|', '&', ';']).filter_map(program).collect();
    let is_one = |word: &&str| PROGRAMS.contains(word) || word.starts_with(BUILT);
    programs.iter().any(is_one) && programs.iter().all(|word| *word == "printf" || is_one(word))
}

/// Returns the program of a command line, after its variables.
fn program(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| !is_variable(word))
}

fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Fails unless all files, packages, features, tests and tasks that the commands name exist.
pub(super) fn check(place: &str, line: &str) {
    for command in line.split([';', '|', '&']).filter(|command| !command.trim().is_empty()) {
        let words: Vec<&str> =
            command.split_whitespace().skip_while(|word| is_variable(word)).collect();
        if let ["cargo", task, options @ ..] = &words[..] {
            cargo(&format!("{place}: {command}"), task, options);
        }
        for word in words {
            file(place, word.split_once('=').map_or(word, |(_, value)| value));
        }
    }
}

/// Checks a word that names a file of the repository.
fn file(place: &str, word: &str) {
    let unit = [".service", ".timer"].iter().any(|end| word.ends_with(end));
    let path = if unit { format!("packaging/systemd/{word}") } else { word.to_owned() };
    if unit || word.starts_with("packaging/") {
        assert!(root().join(&path).exists(), "{place}: there is no {path}");
    }
}

fn cargo(place: &str, task: &str, options: &[&str]) {
    // A program's own options stand behind two dashes.
    let own = options.split(|word| *word == "--").next().unwrap_or_default();
    for pair in own.windows(2) {
        let [option, value] = pair else { continue };
        let exists = match *option {
            "-p" | "--package" | "--test-package" => value.split(',').all(is_package),
            "--example" => is_source("examples", value),
            "--test" => ["tests", "proof/tests"].iter().any(|folder| is_source(folder, value)),
            "--bin" => manifests().contains(&format!("name = \"{value}\"")),
            "--features" => value.split(',').all(is_feature),
            _ => true,
        };
        assert!(exists, "{place}: there is no {value}");
    }
    match (task, own) {
        ("xtask", [name, options @ ..]) => xtask(place, name, options),
        ("install", [package, ..]) => {
            assert!(is_package(package) || FOREIGN.contains(package), "{place}: no {package}");
        }
        _ => {}
    }
}

/// Checks a task and its options, by their words in its sources.
fn xtask(place: &str, name: &str, options: &[&str]) {
    let sources = ["xtask/src", "benches", "proof"].map(|folder| text_below(&root().join(folder)));
    let sources = sources.concat();
    let task = camel(name);
    let is_task = [" {", "(", ","].iter().any(|end| sources.contains(&format!("    {task}{end}")));
    assert!(is_task, "{place}: there is no task {name}");
    for option in options.iter().filter_map(|word| word.strip_prefix("--")) {
        let names = [format!("\"--{option}\""), format!(" {}:", option.replace('-', "_"))];
        assert!(names.iter().any(|name| sources.contains(name)), "{place}: no --{option}");
    }
}

fn camel(name: &str) -> String {
    let words = name.split('-').filter_map(|word| word.split_at_checked(1));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}

fn is_package(name: &str) -> bool {
    manifests().contains(&format!("\nname = \"{name}\""))
}

fn is_feature(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    manifests().contains(&format!("\n{name} = ["))
}

fn is_source(folder: &str, name: &str) -> bool {
    let folder = root().join(folder);
    folder.join(name).exists() || folder.join(format!("{name}.rs")).exists()
}

/// Returns the manifests of all packages.
fn manifests() -> String {
    let folders = fs::read_dir(root()).expect("a folder");
    let examples = fs::read_dir(root().join("examples")).expect("a folder");
    let folders = folders.chain(examples).map(|entry| entry.expect("an entry").path());
    let manifests = folders.chain([root()]).map(|folder| folder.join("Cargo.toml"));
    manifests.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
}

fn text_below(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text += &text_below(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(path).expect("a source");
        }
    }
    text
}
