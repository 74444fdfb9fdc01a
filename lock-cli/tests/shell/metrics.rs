//! `--metrics-file`: what the textfile collector of node_exporter reads.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use lock_testkit::eventually;
use rustix::process::Signal;

use crate::LIMIT;
use crate::shell::{Shell, send};
use crate::store::File;

/// A file has the library's metrics at the end, and while the lock is held.
#[tokio::test]
async fn a_file_has_the_metrics_of_its_process() {
    let shell = Shell::of(&File::start());
    let ran = shell.run(&["run", "--metrics-file", "ran.prom", "a", "--", "true"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let acquired = r#"leasehold_acquisitions_total{file="ran.prom",backend="file",group="all",outcome="acquired"} 1"#;
    let written = shell.read("ran.prom");
    for part in [acquired, "# TYPE leasehold_hold_seconds histogram", "reason=\"expired\"} 0"] {
        assert!(written.contains(part), "no {part} in {written}");
    }
    let mode = shell.file("ran.prom").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o444, 0o444, "node_exporter reads it");
    let beside = std::fs::read_dir(shell.file("")).expect("the folder").flatten();
    let left: Vec<_> = beside.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["ran.prom"], "nothing is left beside it");

    let mut hold = shell.leasehold(&["hold", "--metrics-file", "held.prom", "a"]);
    let mut held = hold.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut elect =
        shell.start(&["elect", "--metrics-file", "led.prom", "e", "--", "sleep", "600"]);
    let acquired = |file: &str| shell.read(file).contains("outcome=\"acquired\"} 1");
    eventually("both are written", LIMIT, async || acquired("held.prom") && acquired("led.prom"))
        .await;
    send(held.id().expect("it runs"), Signal::TERM);
    held.wait().await.expect("it is ours");
    elect.send(Signal::TERM);
    elect.ended().await;
    assert!(shell.read("held.prom").contains("outcome=\"released\"} 1"));
}

/// Nothing runs without the metrics that were asked for.
#[tokio::test]
async fn a_file_that_cannot_be_written_is_told_before_the_command_runs() {
    let shell = Shell::of(&File::start());
    for (file, code) in [("no/such/folder/a.prom", 74), ("..", 64)] {
        let run = ["run", "--metrics-file", file, "a", "--", "touch", "ran"];
        let refused = shell.run(&run).await;
        assert!(refused.code == code && refused.stderr.contains(file), "{}", refused.stderr);
        assert!(!shell.file("ran").exists());
    }
}
