//! A listing of a folder with many names takes longer than its limit.

use std::fs;
use std::time::Instant;

use leasehold::connect;

use crate::verdict::{Verdict, turn};

pub(crate) async fn run(size: usize) -> Verdict {
    let folder = tempfile::tempdir().expect("a folder");
    let client = connect(&format!("file://{}", folder.path().display())).await;
    let client = client.expect("a folder for locks");
    for number in 0..size {
        turn(&client, &format!("name-{number}")).await;
    }
    let files = fs::read_dir(folder.path()).map_or(0, Iterator::count);
    let _guard = client.acquire("held").await.expect("a free lock");
    let asked = Instant::now();
    let listed = client.admin().list("", 100).await;
    let took = asked.elapsed();
    let is_right = listed.as_ref().is_ok_and(|listed| listed.len() == 1);
    let seen = match listed {
        Ok(listed) => format!("{} locks after {took:.1?}, among {files} files", listed.len()),
        Err(error) => format!("{error} after {took:.1?}, among {files} files"),
    };
    Verdict::of(format!("the held one of {size} names is listed within 2 s"), seen, is_right)
}
