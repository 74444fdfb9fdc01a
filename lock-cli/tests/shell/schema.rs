//! Compares the JSON of each verb with the schema of `docs/json.md`.

use lock_testkit::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::LIMIT;
use crate::shell::{Output, Shell};
use crate::store::File;

const PAGE: &str = include_str!("../../../docs/json.md");

/// Returns the key and the type of each row below a heading that has `title`.
fn keys(title: &str) -> Vec<(&'static str, &'static str)> {
    let of = |section: &&str| section.lines().next().is_some_and(|line| line.contains(title));
    let section = PAGE.split("\n#").find(of).unwrap_or_else(|| panic!("no part {title:?}"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.filter_map(|(key, rest)| Some((key, rest.split_once(" |")?.0))).collect()
}

/// Asserts that a value is of one of the types that a row names.
fn assert_type(value: &Value, types: &str, at: &str) {
    let is = |kind: &str| match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("null", Value::Null) => true,
        ("integer", value) => value.is_u64(),
        (kind, Value::Array(items)) if kind.starts_with("array of ") => {
            items.iter().for_each(|item| assert_type(item, &kind["array of ".len()..], at));
            true
        }
        ("map of integer", Value::Object(map)) => map.values().all(Value::is_u64),
        ("lock", Value::Object(_)) => {
            assert_keys(value, keys("`inspect`").into_iter().skip(1).collect(), at);
            true
        }
        (kind @ ("holder" | "run" | "capabilities" | "finding"), Value::Object(_)) => {
            assert_keys(value, keys(&format!(" {kind}")), at);
            true
        }
        _ => false,
    };
    let mut types = types.trim_end_matches(", optional").split(" or ");
    assert!(types.clone().any(is), "{at} is {value}, and not {:?}", types.next());
}

fn assert_keys(object: &Value, keys: Vec<(&str, &str)>, at: &str) {
    assert!(!keys.is_empty(), "{at} has a schema");
    let object = object.as_object().expect("an object");
    for key in object.keys() {
        assert!(keys.iter().any(|(known, _)| known == key), "{at}.{key} is not on the page");
    }
    for (key, types) in keys {
        match object.get(key) {
            Some(value) => assert_type(value, types, &format!("{at}.{key}")),
            None => assert!(types.ends_with(", optional"), "{at} has no {key}"),
        }
    }
}

/// Each output of a verb is an object in a line, as the page says.
#[tokio::test]
async fn the_json_of_each_verb_is_that_of_the_page() {
    let store = File::start();
    let shell = Shell::of(&store);
    let once = shell.run(&["run", "-q", "--once", "x", "nightly", "--", "true"]).await;
    assert_eq!(once.code, 0, "{}", once.stderr);
    let mut permit = shell.hold(&["--limit", "3"], "a", "exec sleep 600").await;
    let mut leader = shell.start(&["elect", "-q", "e", "--", "sleep", "600"]);
    let leads = async || shell.run(&["leader", "e"]).await.stdout.contains("in term");
    eventually("it leads", LIMIT, leads).await;
    let asked =
        r#"printf '{"acquire":"c"}\n{"acquire":"a","wait_ms":0}\nx\n' | "$L" hold --json-lines"#;
    for (title, lines, script) in [
        ("`inspect`", 1, "\"$L\" inspect --json a"),
        ("`inspect`", 1, "\"$L\" inspect --json free"),
        ("`inspect`", 1, "\"$L\" watch --json a | head -1"),
        ("`ps`", 1, "\"$L\" ps --json"),
        ("`ps`", 1, "\"$L\" ps --follow --json | head -1"),
        ("`leader`", 1, "\"$L\" leader --json e"),
        ("`leader`", 1, "\"$L\" leader --json free"),
        ("`leader`", 1, "\"$L\" leader --follow --json e | head -1"),
        ("`runs`", 1, "\"$L\" runs --json nightly"),
        ("`doctor`", 1, "\"$L\" doctor --json a"),
        ("`hold`", 1, "\"$L\" acquire --for 1m --lease lease b"),
        // The end of the input may come before a lock.
        ("`hold`", 3, asked),
    ] {
        let printed = Output::of(shell.command("sh", &["-c", script])).await.stdout;
        assert!(printed.lines().count() >= lines, "{script}: {printed}");
        for line in printed.lines() {
            assert_keys(&serde_json::from_str(line).expect("JSON"), keys(title), script);
        }
    }
    for running in [&mut permit, &mut leader] {
        running.send(Signal::TERM);
        running.ended().await;
    }
}
