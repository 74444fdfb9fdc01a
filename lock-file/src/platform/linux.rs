//! What only Linux tells: its boot, the time since then, rights, and what a path is mounted from.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access, statfs};
use rustix::time::{ClockId, clock_gettime};

/// File systems whose files are also another machine's, by `statfs(2)`'s `f_type`.
const NETWORK: [(u32, &str); 17] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB2"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0xbacb_acbc, "VMware shared folder"),
    (0x786f_4256, "VirtualBox shared folder"),
];

/// The id of this boot of the machine.
pub(crate) fn boot_id() -> io::Result<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim().to_owned())
}

/// The time since the machine was booted, suspend included. It is the same for all processes, and
/// nobody can set it.
pub(crate) fn uptime() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Creates a directory for its owner alone, and those above it.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Checks that files of a directory can be listed, created and changed.
pub(crate) fn check_rights(directory: &Path) -> io::Result<()> {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    Ok(access(directory, all)?)
}

/// Makes files that are created through `options` their owner's alone.
pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Whether an open file has no name any more.
pub(crate) fn is_deleted(file: &Metadata) -> bool {
    file.nlink() == 0
}

/// What kind of network file system a path is on; `None` if it is not visibly on one.
pub(crate) fn network_mount(path: &Path) -> io::Result<Option<&'static str>> {
    // The width and sign of `f_type` differ between architectures; its magic numbers have 32 bits.
    Ok(network_kind(statfs(path)?.f_type as u32))
}

fn network_kind(magic: u32) -> Option<&'static str> {
    let known = NETWORK.iter().find(|(network, _)| *network == magic);
    known.map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_mounts_are_known_and_local_ones_are_not() {
        for (magic, kind) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9P")] {
            assert_eq!(network_kind(magic), Some(kind));
        }
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network_kind(local), None, "{local:#x}");
        }
    }
}
