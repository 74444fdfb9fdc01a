//! The examples, each of which ends by itself and fails if its story does not come true.

mod on_redis;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::step::{self, Done};
use crate::workspace::{cargo, root, target};

/// Where an example finds its locks if no argument says it.
const URL: &str = "LEASEHOLD_URL";

/// Builds all examples as the tests do, and runs each without arguments; then runs those that take a
/// URL once more, on a Redis server.
pub(crate) fn run() -> Done {
    step::run(&mut cargo("build --workspace --all-features --examples"))?;
    let examples = all()?;
    for example in &examples {
        step::run(&mut example.command())?;
    }
    on_redis::run(&examples)
}

/// All examples, sorted by name.
fn all() -> io::Result<Vec<Example>> {
    let mut examples: Vec<_> =
        entries(&root().join("examples"))?.into_iter().filter_map(Example::at).collect();
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(examples)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// A file, or a folder with a `main.rs`.
struct Example {
    name: String,
    path: PathBuf,
}

impl Example {
    fn at(path: PathBuf) -> Option<Self> {
        let is_one = is_rust(&path) || path.join("main.rs").is_file();
        let name = path.file_stem().filter(|_| is_one)?.display().to_string();
        Some(Self { name, path })
    }

    /// Runs what was built, without arguments, wherever the shell's own locks are.
    fn command(&self) -> Command {
        let mut command = Command::new(target().join("debug/examples").join(&self.name));
        command.current_dir(root()).stdin(Stdio::null()).env_remove(URL);
        command
    }

    /// Whether it takes a URL, by its sources: a list beside them would go stale.
    fn takes_url(&self) -> io::Result<bool> {
        let reads_it = format!("env = \"{URL}\"");
        let texts: Result<Vec<_>, _> = self.sources()?.iter().map(fs::read_to_string).collect();
        Ok(texts?.iter().any(|text| text.contains(&reads_it)))
    }

    fn sources(&self) -> io::Result<Vec<PathBuf>> {
        match self.path.is_dir() {
            true => Ok(entries(&self.path)?.into_iter().filter(|path| is_rust(path)).collect()),
            false => Ok(vec![self.path.clone()]),
        }
    }
}

fn is_rust(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readme() -> String {
        fs::read_to_string(root().join("examples/README.md")).expect("a README")
    }

    #[test]
    fn each_example_is_listed_in_the_readme_of_the_examples() {
        let (readme, examples) = (readme(), all().expect("a folder of examples"));
        assert!(examples.iter().any(|example| example.name == "quickstart"));
        for Example { name, .. } in examples {
            assert!(readme.contains(&format!("--example {name}")), "{name} is not listed");
        }
    }

    #[test]
    fn the_readme_of_the_examples_names_those_that_take_a_url() {
        let readme = readme();
        let paragraph = readme.split("\n\n").find(|paragraph| paragraph.contains(URL));
        let paragraph = paragraph.expect("a paragraph about the variable");
        for example in all().expect("a folder of examples") {
            let (name, takes_url) = (&example.name, example.takes_url().expect("sources"));
            assert_eq!(paragraph.contains(&format!("`{name}`")), takes_url, "{name}");
        }
    }
}
