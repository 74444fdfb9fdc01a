//! The copy of the workspace that mutants live in.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::step::Done;
use crate::workspace::files_of;

/// Makes `copy` hold what git knows of `original`, with changes and new files.
///
/// Files that are the same already are left alone, so that cargo does not build them again.
pub(super) fn refresh(original: &Path, copy: &Path) -> Done {
    let files = files_of(original)?;
    for file in &files {
        let content = fs::read(original.join(file))?;
        if !fs::read(copy.join(file)).is_ok_and(|old| old == content) {
            write(&copy.join(file), &content)?;
        }
    }
    remove_others(copy, copy, &files.into_iter().collect())?;
    Ok(())
}

/// Writes a file so that cargo sees that it changed.
///
/// Cargo compares the file's time with that of its last build. The time the system gives is that of
/// its last tick, so it is set to the exact one.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, content)?;
    File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

/// Removes what is not in the workspace any more.
fn remove_others(copy: &Path, folder: &Path, files: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(copy, &path, files)?;
        } else if !path.strip_prefix(copy).is_ok_and(|file| files.contains(file)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::command;

    /// A folder with a git repository and one file in it.
    fn original() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut init = command("git init --quiet");
        assert!(init.current_dir(&folder).status().expect("git").success());
        fs::write(folder.path().join("kept"), "1").expect("written");
        folder
    }

    #[test]
    fn a_copy_is_refreshed_where_it_differs() {
        let (original, copy) = (original(), tempfile::tempdir().expect("a temporary folder"));
        let kept = copy.path().join("kept");
        refresh(original.path(), copy.path()).expect("a copy");
        let first = fs::metadata(&kept).expect("copied").modified().expect("a time");

        fs::write(copy.path().join("stray"), "1").expect("written");
        fs::create_dir(original.path().join("new")).expect("made");
        fs::write(original.path().join("new/file"), "2").expect("written");
        refresh(original.path(), copy.path()).expect("a copy");

        assert!(!copy.path().join("stray").exists());
        assert_eq!(fs::read(copy.path().join("new/file")).expect("copied"), b"2");
        let second = fs::metadata(&kept).expect("copied").modified().expect("a time");
        assert_eq!(first, second);
    }

    #[test]
    fn a_mutated_copy_is_put_right() {
        let (original, copy) = (original(), tempfile::tempdir().expect("a temporary folder"));
        refresh(original.path(), copy.path()).expect("a copy");
        write(&copy.path().join("kept"), b"mutated").expect("written");
        refresh(original.path(), copy.path()).expect("a copy");
        assert_eq!(fs::read(copy.path().join("kept")).expect("copied"), b"1");
    }
}
