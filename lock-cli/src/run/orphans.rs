//! Processes that a command left behind: our children if we are the first process of a container, or a subreaper.

use std::collections::BTreeMap;
use std::iter::successors;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{fs, io, process};

use rustix::process::Pid;

/// Makes the orphans of our descendants our children, so that none is left unseen.
#[cfg(target_os = "linux")]
pub(super) fn adopt() -> io::Result<()> {
    use rustix::process::{getpid, set_child_subreaper};

    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Does nothing: on other systems orphans are not seen.
#[cfg(not(target_os = "linux"))]
pub(super) fn adopt() -> io::Result<()> {
    Ok(())
}

/// Returns our descendants in a process group that have not ended; none on a system that does not show descendants.
pub(super) fn descendants_in(group: Pid) -> Vec<Pid> {
    let (us, group) = (process::id(), group.as_raw_nonzero().get().unsigned_abs());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| stat(&entry.file_name().into_string().ok()?));
    let processes: BTreeMap<u32, [u32; 2]> = processes.collect();
    let parent = |process: &u32| processes.get(process).map(|[parent, _]| *parent);
    let members = processes.iter().filter(|(_, [_, of])| *of == group).map(|(id, _)| *id);
    let ours = members.filter(|id| {
        successors(parent(id), parent).take(processes.len()).any(|ancestor| ancestor == us)
    });
    ours.filter_map(|id| Pid::from_raw(id.try_into().ok()?)).collect()
}

/// Returns the id of a process, its parent and its group; `None` if it has ended.
fn stat(id: &str) -> Option<(u32, [u32; 2])> {
    let id = id.parse().ok()?;
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name ends at the last parenthesis, and may have any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let _state = fields.next().filter(|state| *state != "Z")?;
    let mut next = || fields.next()?.parse().ok();
    Some((id, [next()?, next()?]))
}

/// The process of a hook, or 0.
static HOOK: AtomicI32 = AtomicI32::new(0);

/// Leaves the process of a hook unreaped, since other code waits for its end.
pub(crate) fn leave_to_its_waiter(hook: Option<Pid>) {
    HOOK.store(hook.map_or(0, |hook| hook.as_raw_nonzero().get()), Ordering::Relaxed);
}

/// Reaps all children that have ended, so that none stays as a zombie. Leaves out `command` and the hook, since other
/// code waits for their ends.
#[cfg(target_os = "linux")]
pub(super) fn reap(command: Option<Pid>) {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    let command = command.map(|command| command.as_raw_nonzero().get());
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    loop {
        let next = waitid(Id::All, ended | WaitPidFlag::WNOWAIT).ok().and_then(|child| child.pid());
        let hook = Some(HOOK.load(Ordering::Relaxed));
        let orphan = next.filter(|child| ![command, hook].contains(&Some(child.as_raw())));
        if orphan.is_none_or(|orphan| waitid(Id::Pid(orphan), ended).is_err()) {
            return;
        }
    }
}

/// Does nothing: on other systems this process reaps no orphans.
#[cfg(not(target_os = "linux"))]
pub(super) fn reap(_command: Option<Pid>) {}
