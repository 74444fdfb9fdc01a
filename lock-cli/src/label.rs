//! Default label of a holder.

/// Returns `host:pid`.
pub(crate) fn host_and_pid() -> String {
    let uname = rustix::system::uname();
    let host: String = uname.nodename().to_string_lossy().chars().filter(plain).take(64).collect();
    format!("{host}:{}", std::process::id())
}

fn plain(c: &char) -> bool {
    c.is_ascii_graphic()
}
