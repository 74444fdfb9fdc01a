//! One example: its sources, and its program.

use std::process::{Command, Stdio};

use crate::lint::source;
use crate::step::Done;
use crate::workspace::{root, target};

/// Variable with the URL of the locks, for an example without that argument.
pub(super) const URL: &str = "LEASEHOLD_URL";

/// A package of the folder `examples` with a `main.rs`.
pub(super) struct Example {
    pub(super) name: String,
    /// True if the example reads [`URL`], according to its sources: a separate list would go stale.
    pub(super) takes_url: bool,
}

impl Example {
    pub(super) fn all() -> Done<Vec<Self>> {
        let reads_it = format!("env = \"{URL}\"");
        let sources = source::with_endings(&[".rs"])?;
        let examples = sources.iter().filter_map(|source| {
            let name = name(&source.path)?;
            let mut own = sources.iter().filter(|one| one.is_in(&format!("examples/{name}")));
            let takes_url = own.any(|one| one.text.contains(&reads_it));
            Some(Self { name: name.to_owned(), takes_url })
        });
        Ok(examples.collect())
    }

    /// Runs the program without arguments. The URL of the calling shell does not count.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(target().join("debug").join(&self.name));
        command.current_dir(root()).stdin(Stdio::null()).env_remove(URL);
        command
    }
}

/// Returns the name of the example whose main file is at `path`.
fn name(path: &str) -> Option<&str> {
    let name = path.strip_prefix("examples/")?.strip_suffix("/main.rs")?;
    (!name.contains('/')).then_some(name)
}
