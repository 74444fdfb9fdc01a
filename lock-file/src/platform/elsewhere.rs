//! Other systems than Linux: fences work, locks say that they do not.

use std::fs::{Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

pub(crate) fn boot_id() -> Option<String> {
    None
}

pub(crate) fn time_offset() -> io::Result<i128> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system is not Linux"))
}

/// Never asked: without its offset no directory of locks can be opened.
pub(crate) fn uptime() -> Duration {
    Duration::ZERO
}

pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

pub(crate) fn check_rights(_directory: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

pub(crate) fn is_deleted(_file: &Metadata) -> bool {
    false
}

pub(crate) fn network_mount(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}
