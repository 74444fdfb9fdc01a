//! Where the locks are.

use std::env;
use std::path::PathBuf;

use leasehold::LockClient;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::exit::{Exit, Failure};

/// What has a meaning of its own in a file URL.
const SPECIAL: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');

/// A client of the locks at `url`, or of this user's own directory.
pub(crate) async fn connect(url: Option<&str>) -> Result<LockClient, Failure> {
    match url.filter(|url| !url.is_empty()) {
        Some(url) => Ok(leasehold::connect(url).await?),
        None => Ok(leasehold::connect(&own_directory()?).await?),
    }
}

/// `$XDG_STATE_HOME/leasehold`, or `~/.local/state/leasehold`, as a URL.
fn own_directory() -> Result<String, Failure> {
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .ok_or_else(|| missing("neither XDG_STATE_HOME nor HOME is the path of a directory"))?;
    let directory = state.join("leasehold");
    let path = directory.to_str().ok_or_else(|| missing("the state directory is not UTF-8"))?;
    Ok(format!("file:{}", utf8_percent_encode(path, SPECIAL)))
}

/// The specification of XDG_STATE_HOME wants relative paths ignored.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn missing(why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{why}: say where the locks are by --url or LEASEHOLD_URL"))
}
