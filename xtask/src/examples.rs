//! Runs the examples. Each ends by itself, and fails if its story does not come true.

mod example;
mod on_redis;
mod signalled;

use self::example::Example;
use crate::step::{self, Done, Failure};
use crate::workspace::cargo;

/// Builds all examples with the features that the tests have, and runs each without arguments. Then runs those that take a URL again on
/// a Redis server, ends the flash sale in the middle, and serves the shop of the first hour until a signal ends
/// it. One failure does not hide another.
pub(crate) fn run() -> Done {
    step::run(&mut cargo("build --workspace --all-features --bins --tests"))?;
    let examples = Example::all()?;
    let alone = examples.iter().map(|example| step::run(&mut example.command()));
    let on_redis = std::iter::once_with(|| on_redis::run(&examples));
    let signalled = std::iter::once_with(|| {
        signalled::run(named(&examples, "flash_sale")?, named(&examples, "first_hour")?)
    });
    Failure::all_of(alone.chain(on_redis).chain(signalled))
}

/// Returns an example that is also run in other ways.
fn named<'a>(examples: &'a [Example], name: &str) -> Done<&'a Example> {
    let example = examples.iter().find(|example| example.name == name);
    example.ok_or_else(|| Failure::new(format!("there is no example {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::example::URL;
    use crate::lint::source;

    #[test]
    fn the_readme_of_the_examples_lists_each_and_names_those_that_take_a_url() {
        let readme = source::read("examples/README.md").expect("a README").text;
        let paragraph = readme.split("\n\n").find(|paragraph| paragraph.contains(URL));
        let paragraph = paragraph.expect("a paragraph about the variable");
        let examples = Example::all().expect("a folder of examples");
        assert!(examples.iter().any(|example| example.name == "quickstart"));
        for Example { name, takes_url } in examples {
            assert!(
                readme.contains(&format!("-p {name}`")) || readme.contains(&format!("-p {name} ")),
                "{name} is not listed"
            );
            assert_eq!(paragraph.contains(&format!("`{name}`")), takes_url, "{name}");
        }
    }
}
