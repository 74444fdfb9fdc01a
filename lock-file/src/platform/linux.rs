//! Facts of Linux alone: the boot, the uptime, rights, and the mount of a path.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags, accessat, fstatfs, openat,
    statfs, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use crate::creation::Creation;

/// The `f_type` of `/proc`.
const PROC: u32 = 0x9fa0;

/// File systems that belong to one machine alone, by `statfs(2)`'s `f_type`. Machines may share any other file
/// system.
const LOCAL: [u32; 15] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // F2FS
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
    0x3434,      // NILFS2
    0x2405_1905, // UBIFS
    0x72b6,      // JFFS2
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x6175_6673, // aufs
];

/// Names of foreign file systems.
const FOREIGN: [(u32, &str); 19] = [
    (0x6573_5546, "FUSE (as GlusterFS, CephFS, JuiceFS, virtiofs and sshfs are)"),
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
    (0x2003_0528, "OrangeFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0xbacb_acbc, "a VMware shared folder"),
    (0x786f_4256, "a VirtualBox shared folder"),
];

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns the kernel's own id of this boot; `None` if it cannot be read, as when a container has mounted another id
/// in its place.
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

/// Returns the lead of [`uptime`] over the machine's, in ns: the offset of this process's time namespace.
pub(crate) fn time_offset() -> io::Result<i128> {
    let namespace = std::fs::read_link("/proc/self/ns/time");
    // A kernel without time namespaces does not have their files.
    if namespace.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return std::fs::read_link("/proc/self/ns/mnt").map(|_| 0);
    }
    // The kernel reports the offset of the children's namespace.
    if namespace? != std::fs::read_link("/proc/self/ns/time_for_children")? {
        return Err(io::Error::other(
            "the time namespace of this process is not that of its children",
        ));
    }
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets")?;
    boot_offset(&offsets)
        .ok_or_else(|| io::Error::other("/proc/self/timens_offsets is not understood"))
}

/// Returns the offset of the boot clock, in ns. Linux 5.6 names the clocks by numbers.
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

/// Returns the time since the machine was booted, with suspend and with the offset of the time namespace. Nobody can
/// set it.
pub(crate) fn uptime() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Creates a directory for its owner alone, with its parents.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A directory that only this user can change. It stays the same when its path changes.
#[derive(Debug)]
pub(crate) struct Folder(File);

/// Opens the directory at `path`. Refuses a symbolic link, a directory of another user, and one that others may
/// write: they could replace our files.
pub(crate) fn open_folder(path: &Path) -> io::Result<Folder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder =
        openat(CWD, path, flags, Mode::empty()).map_err(|error| match path.is_symlink() {
            true => not_followed(),
            false => error.into(),
        })?;
    let folder = File::from(folder);
    refuse_others(&folder.metadata()?)?;
    Ok(Folder(folder))
}

/// Checks that files of the directory at `path` can be listed, created and changed, by this user alone.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    let Folder(folder) = open_folder(path)?;
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(folder, ".", all, AtFlags::empty())?)
}

/// Makes new or changed names in a directory outlast a crash of the machine.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes files that are created with `options` private to their owner.
pub(crate) fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

impl Folder {
    /// Opens our file in this directory, and creates it for this user alone. Refuses anything but a file of this
    /// user: others may have created it before the folder was ours.
    pub(crate) fn open(&self, name: &OsStr, creation: Creation) -> io::Result<File> {
        let (file, found) = open_file(&self.0, name.as_ref(), creation)?;
        refuse_others(&found)?;
        Ok(file)
    }

    /// Returns the path of a name in this directory, for calls that take no descriptor.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()).into()
    }
}

/// Opens a file at any place and of any owner, and creates it for this user alone.
pub(crate) fn open_anywhere(path: &Path, creation: Creation) -> io::Result<File> {
    open_file(CWD, path, creation).map(|(file, _)| file)
}

fn open_file(folder: impl AsFd, path: &Path, creation: Creation) -> io::Result<(File, Metadata)> {
    // A pipe must not block this process.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = flags | if creation == Creation::Create { OFlags::CREATE } else { OFlags::empty() };
    let file = openat(folder, path, flags, Mode::from_raw_mode(0o600));
    let file = File::from(file.map_err(|errno| match errno {
        Errno::LOOP => not_followed(),
        other => other.into(),
    })?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("it is no file"));
    }
    Ok((file, found))
}

fn refuse_others(found: &Metadata) -> io::Result<()> {
    let (owner, user) = (found.uid(), geteuid().as_raw());
    if owner != user {
        return Err(refused(format!(
            "it belongs to user {owner}, and this process is user {user}: \
             run it as the owner, or choose another directory"
        )));
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(refused(format!(
            "others may write it (its mode is {mode:o}): `chmod go-w` it"
        )));
    }
    Ok(())
}

/// Refuses a path if another user has made it, or a directory or link above it, in a directory that everybody may write,
/// such as `/tmp`. That user could replace what is below it. The system itself does not follow such links, and does not
/// open such files to create them (`fs.protected_symlinks`, `fs.protected_regular`).
pub(crate) fn refuse_strangers(path: &Path) -> io::Result<()> {
    let user = geteuid().as_raw();
    for path in path.ancestors() {
        let Some(Ok(above)) = path.parent().map(fs::metadata) else { continue };
        let Ok(found) = fs::symlink_metadata(path) else { continue };
        let is_public = above.mode() & 0o002 != 0;
        let owner = found.uid();
        if is_public && ![0, user, above.uid()].contains(&owner) {
            let path = path.display();
            return Err(refused(format!(
                "user {owner} has made {path} in a directory that everybody may write, and may \
                 replace what is below it: choose another place"
            )));
        }
    }
    Ok(())
}

fn not_followed() -> io::Error {
    refused("it is a symbolic link, which is not followed")
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

/// Returns true if an open file is the one at this path. A file that was removed may still have other names.
pub(crate) fn is_at(file: &Metadata, path: &Path) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

/// Returns the identity of an open file on this machine. Two containers may have different files at one path.
pub(crate) fn identity(file: &Metadata, _path: &Path) -> String {
    format!("{}:{}", file.dev(), file.ino())
}

/// Returns the kind of a path's file system; `None` if it is known to belong to one machine.
pub(crate) fn foreign_file_system(path: &Path) -> io::Result<Option<String>> {
    // The width and sign of `f_type` differ between architectures; its magic numbers have 32 bits.
    Ok(foreign_kind(statfs(path)?.f_type as u32))
}

fn foreign_kind(magic: u32) -> Option<String> {
    if LOCAL.contains(&magic) {
        return None;
    }
    let known = FOREIGN.iter().find(|(foreign, _)| *foreign == magic);
    Some(
        known.map_or_else(
            || format!("a file system of type {magic:#x}"),
            |(_, kind)| (*kind).into(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_known_to_be_local_or_refused_by_its_name() {
        for (magic, kind) in
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x6573_5546, "FUSE"), (0x1234, "type 0x1234")]
        {
            assert!(foreign_kind(magic).is_some_and(|told| told.contains(kind)), "{kind}");
        }
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(foreign_kind(local), None, "{local:#x}");
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
