//! Events between the grant to a waiter and its notification.

use std::time::Duration;

use tempfile::tempdir;

use super::*;
use crate::testing::{claim, granted, holder, on, queue_at};

#[tokio::test]
async fn s3_a_waiter_that_found_its_grant_before_it_could_not_be_told_keeps_it() {
    let home = tempdir().expect("a directory");
    let start = on(home.path(), "boot", || Duration::ZERO, || Duration::ZERO);
    let later = on(home.path(), "boot", || Duration::from_micros(1), || Duration::ZERO);
    let boot = Some("boot".into());
    let (uptime, wall) = (|| Duration::ZERO, || Duration::ZERO);
    let machine = Machine { boot, offset: 0, uptime, wall };
    let directory = Directory::open(home.path(), machine, FileSystem::default()).expect("opens");
    for claims in [false, true] {
        let (held, waiter) = (claim("a"), claim("a"));
        granted(&start, &held).await;
        queue_at(&start, &waiter, Uuid::new_v4()).await;
        let lock = directory.find(&held.name, LockTimeout::new()).expect("readable");
        let mut lock = lock.expect("there");
        let released = lock.value.release(held.owner, lock.now().reading());
        assert_eq!(released, Release::Released);
        let told = lock.pass_on().expect("written");
        if claims {
            granted(&later, &waiter).await;
        }
        directory.tell(told);
        let holder = holder(&later, "a").await;
        assert_eq!(holder.is_some(), claims, "nobody has the socket");
    }
}
