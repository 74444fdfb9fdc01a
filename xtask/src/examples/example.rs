//! One example: its sources, and its program.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::workspace::{root, target};

/// Variable with the URL of the locks, for an example without that argument.
pub(super) const URL: &str = "LEASEHOLD_URL";

/// A file, or a folder with a `main.rs`.
pub(super) struct Example {
    pub(super) name: String,
    path: PathBuf,
}

impl Example {
    pub(super) fn at(path: PathBuf) -> Option<Self> {
        let is_one = is_rust(&path) || path.join("main.rs").is_file();
        let name = path.file_stem().filter(|_| is_one)?.display().to_string();
        Some(Self { name, path })
    }

    /// Runs the program without arguments. The URL of the calling shell does not count.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(target().join("debug/examples").join(&self.name));
        command.current_dir(root()).stdin(Stdio::null()).env_remove(URL);
        command
    }

    /// Returns true if the example takes a URL, according to its sources: a separate list would go stale.
    pub(super) fn takes_url(&self) -> io::Result<bool> {
        let reads_it = format!("env = \"{URL}\"");
        let texts: Result<Vec<_>, _> = self.sources()?.iter().map(fs::read_to_string).collect();
        Ok(texts?.iter().any(|text| text.contains(&reads_it)))
    }

    fn sources(&self) -> io::Result<Vec<PathBuf>> {
        sources_in(&self.path)
    }
}

/// Returns the sources of a file or folder.
fn sources_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(if is_rust(path) { vec![path.to_owned()] } else { Vec::new() });
    }
    let sources: io::Result<Vec<_>> = entries(path)?.iter().map(|path| sources_in(path)).collect();
    Ok(sources?.concat())
}

/// Returns the entries of a folder.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

fn is_rust(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("rs"))
}
