//! Sockets in a folder: live ones are found, and dead ones are removed.

use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use tempfile::{TempDir, tempdir};

use super::*;

fn sockets() -> (TempDir, Sockets) {
    let home = tempdir().expect("a directory");
    let sockets = Sockets::of(home.path());
    (home, sockets)
}

fn files(sockets: &Sockets) -> usize {
    fs::read_dir(&sockets.folder).expect("readable").count()
}

/// Returns the socket of a process that was killed: a file without a process.
fn dead(sockets: &Sockets) -> Uuid {
    let name = Uuid::new_v4();
    drop(net::UnixDatagram::bind(sockets.path_of(name)).expect("bound"));
    name
}

async fn heard(sockets: &Sockets, socket: &mut HearingSocket, message: &str) -> String {
    assert_eq!(sockets.tell(socket.name(), message), Delivered::Sent);
    socket.recv().await.expect("a message")
}

#[tokio::test]
async fn a_directory_may_be_deep() {
    let home = tempdir().expect("a directory");
    let deep = (0..8).fold(home.path().to_owned(), |path, _| path.join("d".repeat(100)));
    fs::create_dir_all(&deep).expect("made");
    let sockets = Sockets::of(&deep);
    let mut socket = sockets.bind().expect("bound").hear().expect("heard");
    assert_eq!(heard(&sockets, &mut socket, "granted").await, "granted");
}

#[tokio::test]
async fn the_folder_is_private_and_a_socket_goes_with_its_owner() {
    let (_home, sockets) = sockets();
    let mut socket = sockets.bind().expect("bound").hear().expect("heard");
    let mode = fs::metadata(&sockets.folder).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(socket.is_found());
    assert_eq!(heard(&sockets, &mut socket, "").await, "");
    let name = socket.name();
    drop(socket);
    assert_eq!(files(&sockets), 0, "R1");
    assert_eq!(sockets.tell(name, ""), Delivered::Nobody);
}

#[tokio::test]
async fn c28_the_socket_of_a_dead_process_is_gone_and_its_file_is_removed() {
    let (_home, sockets) = sockets();
    let alive = sockets.bind().expect("bound");
    let dead = dead(&sockets);
    assert_eq!(sockets.tell(dead, ""), Delivered::Nobody);
    assert_eq!(files(&sockets), 1);
    assert_eq!(sockets.tell(alive.file.name, ""), Delivered::Sent);
}

#[tokio::test]
async fn r01_dead_sockets_are_removed_by_those_that_come_unless_they_are_young() {
    let (_home, sockets) = sockets();
    let alive = sockets.bind().expect("bound");
    let (old, young) = (dead(&sockets), dead(&sockets));
    for name in [alive.file.name, old] {
        let made = SystemTime::now() - 2 * SETTLED;
        let made = made.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let made = Timespec { tv_sec: made.as_secs() as i64, tv_nsec: 0 };
        let times = Timestamps { last_access: made, last_modification: made };
        utimensat(CWD, sockets.path_of(name), &times, AtFlags::empty()).expect("set");
    }
    while sockets.path_of(old).exists() {
        drop(sockets.bind().expect("bound"));
    }
    assert!(sockets.path_of(young).exists());
    assert!(sockets.path_of(alive.file.name).exists());
}

#[tokio::test]
async fn c28_a_socket_without_a_file_is_noticed() {
    let (_home, sockets) = sockets();
    let socket = sockets.bind().expect("bound").hear().expect("heard");
    fs::remove_file(sockets.path_of(socket.name())).expect("removed");
    assert!(!socket.is_found());
}

#[test]
fn a_runtime_without_io_is_told() {
    let (_home, sockets) = sockets();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let deaf = runtime.block_on(async { sockets.bind().expect("bound").hear() });
    assert_eq!(deaf.expect_err("no I/O").kind(), ErrorKind::Unsupported);
}
