//! Systems other than Linux: fences work, and locks return an error.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::creation::Creation;

pub(crate) fn boot_id() -> Option<String> {
    None
}

pub(crate) fn time_offset() -> io::Result<i128> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system is not Linux"))
}

/// Never called: without the time offset no directory of locks can be opened.
pub(crate) fn uptime() -> Duration {
    Duration::ZERO
}

pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Never created: no directory of locks can be opened.
#[derive(Debug)]
pub(crate) struct Folder(Infallible);

pub(crate) fn open_folder(_path: &Path) -> io::Result<Folder> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Folder {
    pub(crate) fn open(&self, _name: &OsStr, _creation: Creation) -> io::Result<File> {
        match self.0 {}
    }
}

pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    open_folder(path).map(drop)
}

/// Does nothing, since not every system can sync a folder.
pub(crate) fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub(crate) fn open_anywhere(path: &Path, creation: Creation) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(creation == Creation::Create).open(path)
}

/// Does nothing, since the owners of files are not known.
pub(crate) fn refuse_strangers(_path: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn is_at(_file: &Metadata, _path: &Path) -> bool {
    true
}

pub(crate) fn identity(_file: &Metadata, path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(crate) fn foreign_file_system(_path: &Path) -> io::Result<Option<String>> {
    Ok(None)
}
