//! Runs the examples. Each ends by itself, and fails if its story does not come true.

mod example;
mod interrupted;
mod on_redis;
mod served;

use std::io;

use self::example::{Example, entries};
use crate::step::{self, Done, Failure};
use crate::workspace::{cargo, root};

/// Builds all examples as the tests do, and runs each without arguments. Then runs those that take a URL again on
/// a Redis server, ends the flash sale in the middle, and serves the shop of the first hour until a signal ends
/// it. One failure does not hide another.
pub(crate) fn run() -> Done {
    step::run(&mut cargo("build --workspace --all-features --examples"))?;
    let examples = all()?;
    let alone = examples.iter().map(|example| step::run(&mut example.command()));
    let on_redis = std::iter::once_with(|| on_redis::run(&examples));
    let interrupted = std::iter::once_with(|| interrupted::run(named(&examples, "flash_sale")?));
    let served = std::iter::once_with(|| served::run(named(&examples, "first_hour")?));
    Failure::all_of(alone.chain(on_redis).chain(interrupted).chain(served))
}

/// Returns an example that is also run in other ways.
fn named<'a>(examples: &'a [Example], name: &str) -> Done<&'a Example> {
    let example = examples.iter().find(|example| example.name == name);
    example.ok_or_else(|| Failure::new(format!("there is no example {name}")))
}

/// Returns all examples, sorted by name.
fn all() -> io::Result<Vec<Example>> {
    let mut examples: Vec<_> =
        entries(&root().join("examples"))?.into_iter().filter_map(Example::at).collect();
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::examples::example::URL;

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
