//! Temporary folders that are removed at any end of the test process.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use tempfile::TempDir;

/// Reads the paths of folders, and removes them once its input ends. A server may still write to its folder for some
/// seconds, until its tether has ended it.
const SWEEPER: &str = r#"
    trap '' HUP
    while IFS= read -r folder; do set -- "$@" "$folder"; done
    tries=0
    while [ $tries -lt 100 ] && ! rm -rf "$@" 2>/dev/null; do tries=$((tries + 1)); sleep 0.1; done
"#;

/// The input of this process's sweeper. The system closes it when the process ends, even by SIGKILL.
static SWEEPER_INPUT: OnceLock<Mutex<ChildStdin>> = OnceLock::new();

/// Makes a temporary folder. It is removed when the value is dropped. It is also removed when the process ends, since
/// nobody drops a server that the tests of a program share.
pub(crate) fn new_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("leasehold-").tempdir();
    let folder = folder.expect("a temporary folder can be made");
    remove_at_the_end(folder.path());
    folder
}

fn remove_at_the_end(folder: &Path) {
    let input = SWEEPER_INPUT.get_or_init(|| {
        let sweeper = Command::new("/bin/sh")
            .args(["-c", SWEEPER, "sweeper"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let input = sweeper.expect("/bin/sh can be run").stdin.take();
        Mutex::new(input.expect("its input is a pipe"))
    });
    let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(input, "{}", folder.display()).expect("the sweeper reads");
}
