//! The examples, each of which ends by itself and fails if its story does not come true.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::step::{self, Done};
use crate::workspace::{cargo, root, target};

/// Builds all examples as the tests do, and runs each without arguments.
pub(crate) fn run() -> Done {
    step::run(&mut cargo("build --workspace --all-features --examples"))?;
    let built = target().join("debug/examples");
    for name in names()? {
        step::run(Command::new(built.join(name)).current_dir(root()).stdin(Stdio::null()))?;
    }
    Ok(())
}

/// The names of all examples, sorted: each is a file, or a folder with a `main.rs`.
fn names() -> io::Result<Vec<String>> {
    let entries = fs::read_dir(root().join("examples"))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut names: Vec<_> = paths
        .filter_map(|path| path.map(|path| example(&path)).transpose())
        .collect::<Result<_, _>>()?;
    names.sort();
    Ok(names)
}

fn example(path: &Path) -> Option<String> {
    let is_one = path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file();
    let name = path.file_stem().filter(|_| is_one)?;
    Some(name.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_is_listed_in_the_readme_of_the_examples() {
        let readme = fs::read_to_string(root().join("examples/README.md")).expect("a README");
        let names = names().expect("a folder of examples");
        assert!(names.iter().any(|name| name == "quickstart"), "{names:?}");
        for name in names {
            assert!(readme.contains(&format!("--example {name}")), "{name} is not listed");
        }
    }
}
