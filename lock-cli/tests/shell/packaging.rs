//! Tests of the files in `packaging/`, by which others run `leasehold`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::shell::{Output, Shell};
use crate::store::File;

fn read(path: &str) -> String {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    fs::read_to_string(packaging.join(path)).expect(path)
}

/// Runs `leasehold` with these arguments, and `true` in place of the command.
async fn run(args: &[&str]) {
    let options = args.iter().take_while(|word| **word != "--").copied();
    let args: Vec<&str> = options.chain(["--", "true"]).collect();
    let output = Shell::of(&File::start()).run(&args).await;
    assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
}

#[tokio::test]
async fn kubernetes_runs_command_lines_that_are_understood() {
    for (path, pod) in [
        ("kubernetes/cronjob.yaml", "/spec/jobTemplate/spec/template/spec"),
        ("kubernetes/deployment.yaml", "/spec/template/spec"),
    ] {
        let manifest: Value = serde_norway::from_str(&read(path)).expect("YAML");
        let pod = manifest.pointer(pod).expect("a pod");
        let container = &pod["containers"][0];
        assert_eq!(container["command"], serde_json::json!(["/usr/bin/leasehold"]), "{path}");
        let args = container["args"].as_array().expect("a list");
        let args: Vec<&str> = args.iter().map(|word| word.as_str().expect("a text")).collect();
        run(&args).await;
        // Kubernetes must leave the command its grace, or the lock is not released at the end of a pod.
        let mut grace = args.windows(2).filter(|words| words[0] == "--grace").map(|words| words[1]);
        let grace = humantime::parse_duration(grace.next().unwrap_or("5s")).expect("a span");
        let left = pod["terminationGracePeriodSeconds"].as_u64().expect("a number");
        assert!(left > grace.as_secs(), "{path}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn systemd_understands_its_units_and_we_their_command_lines() {
    let shell = Shell::without_url();
    let units = ["indexer.service", "nightly-report.service", "nightly-report.timer"];
    for unit in units {
        let text = read(&format!("systemd/{unit}"));
        let there = text.replace("/usr/bin/leasehold", env!("CARGO_BIN_EXE_leasehold"));
        fs::write(shell.file(unit), there).expect("a file");
        if let Some(line) = text.lines().find_map(|line| line.strip_prefix("ExecStart=")) {
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            run(&words).await;
        }
    }
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let paths = units.map(|unit| shell.file(unit).display().to_string());
    let paths = paths.each_ref().map(String::as_str);
    let said = Output::of(shell.command("systemd-analyze", &[&verify[..], &paths].concat())).await;
    assert_eq!((said.code, &*said.stderr), (0, ""));
}
