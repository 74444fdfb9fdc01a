//! Tests of the files in `packaging/`, by which others run `leasehold`. Tests of `pages` run their command lines.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::shell::{Output, Shell};

/// The manifests of Kubernetes, and the places of their pods.
pub(crate) const MANIFESTS: [(&str, &str); 2] = [
    ("kubernetes/cronjob.yaml", "/spec/jobTemplate/spec/template/spec"),
    ("kubernetes/deployment.yaml", "/spec/template/spec"),
];

/// The units of systemd.
pub(crate) const UNITS: [&str; 3] =
    ["indexer.service", "nightly-report.service", "nightly-report.timer"];

/// Default of `--grace`.
const GRACE: Duration = Duration::from_secs(5);

/// Default of `--remember`.
const REMEMBER: Duration = Duration::from_secs(7 * 24 * 3600);

pub(crate) fn read(path: &str) -> String {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    fs::read_to_string(packaging.join(path)).expect(path)
}

pub(crate) fn manifest(path: &str) -> Value {
    serde_norway::from_str(&read(path)).expect("YAML")
}

/// Returns the value of an option among words.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1])
}

/// Returns the span of an option; `None` if the words lack it.
fn span(words: &[&str], name: &str) -> Option<Duration> {
    option(words, name).map(|text| humantime::parse_duration(text).expect("a span"))
}

/// Fails unless a run that starts late finds that another has done the work. `late` is the longest delay; `None` is a
/// delay without a bound.
fn assert_runs_once(place: &str, words: &[&str], late: Option<Duration>) {
    let kept = match option(words, "--once") {
        Some(_) => span(words, "--remember").unwrap_or(REMEMBER),
        None => span(words, "--at-least").expect("a run once"),
    };
    let late = late.unwrap_or(Duration::from_secs(24 * 3600));
    assert!(
        kept > late,
        "{place}: a run may start after {late:?}, and others are out for {kept:?}"
    );
}

/// Fails unless the supervisor leaves the command its grace: otherwise the lock lasts for its TTL. A leader's grace
/// must fit in half of the TTL, to be its margin.
fn assert_grace_fits(place: &str, words: &[&str], left: Duration) {
    let grace = span(words, "--grace").unwrap_or(GRACE);
    assert!(left > grace, "{place}: the supervisor kills within the grace");
    if words.contains(&"elect") {
        assert!(
            span(words, "--ttl").expect("a TTL") >= 2 * grace,
            "{place}: the margin is shorter"
        );
    }
}

#[test]
fn kubernetes_leaves_time_to_end_and_no_late_start_runs_again() {
    for (path, pod) in MANIFESTS {
        let manifest = manifest(path);
        let pod = manifest.pointer(pod).expect("a pod");
        let container = &pod["containers"][0];
        assert_eq!(container["command"], serde_json::json!(["/usr/bin/leasehold"]), "{path}");
        let args = container["args"].as_array().expect("a list");
        let args: Vec<&str> = args.iter().map(|word| word.as_str().expect("a text")).collect();
        let seconds = |value: &Value| value.as_u64().map(Duration::from_secs);
        let left = seconds(&pod["terminationGracePeriodSeconds"]).expect("a number");
        assert_grace_fits(path, &args, left);
        if manifest["kind"] == "CronJob" {
            assert_runs_once(path, &args, seconds(&manifest["spec"]["startingDeadlineSeconds"]));
        }
    }
}

/// Returns the value of a setting in a unit.
fn setting<'a>(unit: &'a str, name: &str) -> Option<&'a str> {
    unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Returns a span as systemd writes it: a number of seconds, or one with a unit.
fn seconds(text: &str) -> Duration {
    let seconds = text.parse().map(Duration::from_secs);
    seconds.unwrap_or_else(|_| humantime::parse_duration(text).expect("a span"))
}

#[test]
fn systemd_leaves_time_to_end_and_no_late_start_runs_again() {
    for unit in UNITS.iter().filter(|unit| unit.ends_with(".service")) {
        let text = read(&format!("systemd/{unit}"));
        let words: Vec<&str> = setting(&text, "ExecStart").expect("a command").split(' ').collect();
        let left = setting(&text, "TimeoutStopSec").map_or(Duration::from_secs(90), seconds);
        assert_grace_fits(unit, &words, left);
        assert_starts_again(unit, &text);
    }
    let timer = read("systemd/nightly-report.timer");
    let job = read("systemd/nightly-report.service");
    let words: Vec<&str> = setting(&job, "ExecStart").expect("a command").split(' ').collect();
    let delay = |name: &str, default: u64| {
        setting(&timer, name).map_or(Duration::from_secs(default), seconds)
    };
    let delay = delay("RandomizedDelaySec", 0) + delay("AccuracySec", 60);
    let is_persistent = setting(&timer, "Persistent") == Some("true");
    assert_runs_once("nightly-report.timer", &words, (!is_persistent).then_some(delay));
}

/// Fails if systemd gives a unit up after five quick failures in ten seconds, as it does by default: a store that
/// refuses may be mended later.
pub(crate) fn assert_starts_again(place: &str, unit: &str) {
    let pause = setting(unit, "RestartSec").map_or(Duration::from_millis(100), seconds);
    let is_unlimited = setting(unit, "StartLimitIntervalSec") == Some("0");
    assert!(is_unlimited || 5 * pause > Duration::from_secs(10), "{place}: it ends for good");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn systemd_understands_its_units() {
    let shell = Shell::without_url();
    for unit in UNITS {
        let text = read(&format!("systemd/{unit}"));
        let there = text.replace("/usr/bin/leasehold", env!("CARGO_BIN_EXE_leasehold"));
        fs::write(shell.file(unit), there).expect("a file");
    }
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let paths = UNITS.map(|unit| shell.file(unit).display().to_string());
    let paths = paths.each_ref().map(String::as_str);
    let said = Output::of(shell.command("systemd-analyze", &[&verify[..], &paths].concat())).await;
    assert_eq!((said.code, &*said.stderr), (0, ""));
}
