//! What only Linux tells: its boot, the time since then, rights, and what a path is mounted from.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, StatxAttributes, StatxFlags, access, fstatfs, statfs, statx};
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

/// The `f_type` of `/proc`.
const PROC: u32 = 0x9fa0;

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

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The kernel's own id of this boot; `None` if it cannot be read, as where a container has mounted an id of its
/// own in its place.
pub(crate) fn boot_id() -> Option<String> {
    let file = File::open(BOOT_ID).ok()?;
    let seen = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).ok()?;
    let told = seen.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    let mounted = seen.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    let is_kernels = fstatfs(&file).ok()?.f_type as u32 == PROC && told && !mounted;
    let id = io::read_to_string(file).ok()?;
    let id = Uuid::try_parse(id.trim()).ok().filter(|_| is_kernels)?;
    Some(id.as_hyphenated().to_string())
}

/// How far [`uptime`] is ahead of the machine's, in ns: what the time namespace of this process adds.
pub(crate) fn time_offset() -> io::Result<i128> {
    let namespace = std::fs::read_link("/proc/self/ns/time");
    // A kernel that knows of no such namespaces has none of their files.
    if namespace.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return std::fs::read_link("/proc/self/ns/mnt").map(|_| 0);
    }
    // The kernel tells the offset of the children's namespace.
    if namespace? != std::fs::read_link("/proc/self/ns/time_for_children")? {
        return Err(io::Error::other(
            "the time namespace of this process is not that of its children",
        ));
    }
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets")?;
    boot_offset(&offsets)
        .ok_or_else(|| io::Error::other("/proc/self/timens_offsets is not understood"))
}

/// The offset of the boot clock, in ns. Linux 5.6 tells the clocks by their numbers.
fn boot_offset(offsets: &str) -> Option<i128> {
    let words = offsets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let offset = |words: Vec<&str>| match words[..] {
        ["boottime" | "7", seconds, nanos] => {
            Some(seconds.parse::<i128>().ok()? * 1_000_000_000 + nanos.parse::<i128>().ok()?)
        }
        _ => None,
    };
    words.filter_map(offset).next()
}

/// The time since the machine was booted, suspend included, and what the time namespace adds. Nobody can set it.
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

    #[test]
    fn the_offset_of_the_boot_clock_is_read_or_refused() {
        for (offsets, read) in [
            ("monotonic           0         0\nboottime            0         0\n", Some(0)),
            ("monotonic 1 1\nboottime 100000 5\n", Some(100_000_000_000_005)),
            ("1 1 1\n7 -2 500000000\n", Some(-1_500_000_000)),
            ("", None),
            ("monotonic 0 0\n", None),
            ("boottime x 0\n", None),
            ("boottime 1\n", None),
        ] {
            assert_eq!(boot_offset(offsets), read, "{offsets:?}");
        }
    }
}
