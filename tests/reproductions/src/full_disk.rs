//! A full disk with small blocks loses live holds at their first renewal.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold::{LockRequest, connect};
use tokio::time::sleep;

use crate::verdict::Verdict;

const TTL: Duration = Duration::from_secs(2);

/// A file system in a file, mounted until the drop.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Best effort: the folder around it is temporary.
        let _ = succeeds(Command::new("umount").arg("--lazy").arg(self.0));
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

pub(crate) async fn run(size: usize) -> Verdict {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, place) = (folder.path().join("disk"), folder.path().join("place"));
    fs::create_dir(&place).expect("the folder can be written");
    fs::File::create(&disk).and_then(|file| file.set_len(16 << 20)).expect("a file of 16 MB");
    let mut format = Command::new("mkfs.ext4");
    let mut mount = Command::new("mount");
    if !succeeds(format.args(["-q", "-b", "1024"]).arg(&disk))
        || !succeeds(mount.args(["-o", "loop"]).arg(&disk).arg(&place))
    {
        return Verdict::impossible(
            "no file system can be mounted here: it needs root and a loop device",
        );
    }
    let _mounted = Mounted(&place);
    let locks = place.join("locks");
    let client = connect(&format!("file://{}", locks.display())).await.expect("a folder for locks");
    let mut guards = Vec::new();
    for number in 0..size {
        let request = LockRequest::new(format!("lock-{number}")).ttl(TTL);
        guards.push(client.acquire(request).await.expect("a free lock"));
    }
    let fill = format!("dd if=/dev/zero of={}/fill bs=1k; sync", place.display());
    Command::new("sh").args(["-c", &fill]).output().expect("a shell");
    sleep(TTL * 2).await;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let reason = guards.iter().find_map(|guard| guard.lost_signal().reason());
    let reason = reason.map(|reason| format!(", the first by: {reason:?}")).unwrap_or_default();
    let seen = format!("{lost} of {size} holds are lost{reason}");
    Verdict::of("a full disk ends no hold that was granted before", seen, lost == 0)
}
