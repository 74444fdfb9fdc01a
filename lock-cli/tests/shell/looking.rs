//! Output of the commands that look at locks.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_testkit::eventually;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::time::timeout;

use crate::LIMIT;
use crate::shell::{Output, Shell};
use crate::snapshot::{compare, typed};
use crate::store::{File, Store};

pub(crate) async fn the_commands_print<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let compare = |name, printed: Vec<String>| compare(S::NAME, name, &printed.join("\n"));
    let free = [typed(&shell, &["inspect", "a"]).await, typed(&shell, &["ps"]).await];

    let mut a = shell.hold(&["--label", "web-3"], "a", "exec sleep 60").await;
    let mut b = shell.hold(&["--label", ""], "b", "exec sleep 60").await;
    assert!(store.foreign_take("foreign").await);
    let mut printed = free.to_vec();
    for args in [&["inspect", "a"][..], &["inspect", "b"], &["inspect", "a", "--json"]] {
        printed.push(typed(&shell, args).await);
    }
    compare("inspect", printed);
    let mut printed = Vec::new();
    for args in
        [&["ps"][..], &["ps", "a", "--json"], &["ps", "x", "--json"], &["ps", "--limit", "1"]]
    {
        printed.push(typed(&shell, args).await);
    }
    compare("ps", printed);
    let refused = typed(&shell, &["run", "--no-wait", "a", "--", "true"]).await;
    let late = typed(&shell, &["run", "--wait", "3s", "a", "--", "true"]).await;
    compare(
        "run",
        vec![refused, late, typed(&shell, &["run", "c", "--", "no-such-program"]).await],
    );
    for held in [&mut a, &mut b] {
        held.send(Signal::TERM);
        held.ended().await;
    }
}

/// Each backend tests the findings of its doctor.
pub(crate) async fn c31_the_doctor_tells_of_the_server<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let json = shell.run(&["doctor", "--json"]).await;
    assert_eq!((json.code, &*json.stderr), (0, ""));
    let report: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(report["capabilities"]["backend"], S::NAME);
    let findings = report["findings"].as_array().expect("findings");
    assert!(!findings.is_empty());
    let text = shell.run(&["doctor"]).await.stdout;
    for finding in findings {
        let check = finding["check"].as_str().expect("a text");
        let health = finding["health"].as_str().expect("a text");
        let told = text.lines().any(|line| line.starts_with(health) && line.contains(check));
        assert!(told && finding["seen"].is_string(), "{finding} is not in {text}");
        assert_eq!(finding["remedy"].is_null(), health == "good", "{finding}");
    }
}

pub(crate) async fn the_doctor_prints<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let printed = [typed(&shell, &["doctor"]).await, typed(&shell, &["doctor", "--json"]).await];
    compare(S::NAME, "doctor", &printed.join("\n"));
}

pub(crate) async fn a_forced_release_ends_the_hold<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let options = ["--label", "web-3", "--ttl", "6s"];
    let mut held = shell.hold(&options, "a", "echo $LEASEHOLD_TOKEN > first; exec sleep 60").await;
    let printed = [
        typed(&shell, &["release", "a"]).await,
        typed(&shell, &["release", "--force", "a", "--owner", "00000000"]).await,
        typed(&shell, &["release", "--force", "a"]).await,
        typed(&shell, &["release", "--force", "a"]).await,
    ];
    compare(S::NAME, "release", &printed.join("\n"));
    let next = shell.run(&["run", "a", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"]).await;
    let token = |text: &str| text.trim().parse::<u64>().expect("a token");
    assert!(token(&next.stdout) > token(&shell.read("first")), "the next token is not greater");
    assert_eq!(held.code().await, 76, "{}", held.stderr());
}

pub(crate) async fn watching_prints_each_change<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let files =
        ["text", "json"].map(|file| std::fs::File::create(shell.file(file)).expect("a file"));
    let mut watchers = Vec::new();
    for (args, file) in [&["watch", "a"][..], &["watch", "a", "--json"]].iter().zip(files) {
        let mut watch = shell.leasehold(args);
        watchers.push(watch.stdout(file).stderr(Stdio::inherit()).spawn().expect("it starts"));
    }
    // Takes each step after both have seen the one before.
    let seen = async |lines: usize| {
        eventually("both have seen it", LIMIT, async || {
            ["text", "json"].iter().all(|file| shell.read(file).lines().count() == lines)
        })
        .await;
    };
    seen(1).await;
    let mut held = shell.hold(&["--label", "web-3"], "a", "exec sleep 60").await;
    seen(2).await;
    held.send(Signal::TERM);
    held.ended().await;
    seen(3).await;
    compare(S::NAME, "watch", &format!("{}\n{}", shell.read("text"), shell.read("json")));
}

/// A name or a label may have invisible characters, or characters that reorder the text. Output for people
/// escapes them; output for programs is unchanged.
pub(crate) async fn what_people_read_cannot_be_forged(store: &impl Store) {
    let shell = Shell::of(store);
    let (name, label) = ("pay\u{202e}lla", "web\u{200b}-3");
    let note = "printf %s \"$LEASEHOLD_NAME\" > name; exec sleep 60";
    let mut held = shell.hold(&["--label", label], name, note).await;
    eventually("it knows its lock", LIMIT, async || shell.read("name") == name).await;

    let busy = &["run", "--no-wait", name, "--", "true"];
    for args in [&["inspect", name][..], &["ps"], busy, &["release", name], &["no\u{202e}thing"]] {
        let Output { stdout, stderr, .. } = shell.run(args).await;
        let printed = stdout + &stderr;
        assert!(!printed.contains(['\u{202e}', '\u{200b}']), "{args:?}: {printed}");
        assert!(printed.contains("\\u{202e}"), "{args:?}: {printed}");
    }
    for args in [&["inspect", name][..], &["ps"], busy] {
        let Output { stdout, stderr, .. } = shell.run(args).await;
        assert!((stdout + &stderr).contains("web\\u{200b}-3"), "{args:?}");
    }
    let seen = first_line(&shell, &["watch", name]).await;
    assert!(seen.contains("web\\u{200b}-3") && !seen.contains('\u{200b}'), "{seen}");

    let watched = first_line(&shell, &["watch", name, "--json"]).await;
    let inspected = shell.run(&["inspect", name, "--json"]).await.stdout;
    for json in [watched, inspected] {
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&json["name"], &json["label"]), (&Value::from(name), &Value::from(label)));
    }
    let evicted = shell.run(&["release", "--force", name]).await.stdout;
    assert!(
        evicted.starts_with("ended the hold of \"pay\\u{202e}lla\" by \"web\\u{200b}-3\" ("),
        "{evicted}"
    );
    held.send(Signal::TERM);
    held.ended().await;
}

pub(crate) async fn c45_those_who_look_see_since_when_a_lock_is_held(store: &impl Store) {
    let shell = Shell::of(store);
    let (before, mut held) = (now_ms(), shell.hold(&[], "a", "exec sleep 60").await);
    let after = now_ms();
    let json = shell.run(&["inspect", "a", "--json"]).await.stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let since = json["since_ms"].as_u64().expect("a time");
    assert!((before..=after).contains(&since), "{before} {since} {after}");

    let shown = UNIX_EPOCH + Duration::from_millis(since);
    let shown = humantime::format_rfc3339_seconds(shown).to_string();
    for args in [&["inspect", "a"][..], &["ps"]] {
        let printed = shell.run(args).await.stdout;
        assert!(printed.contains(&shown), "{args:?}: {printed}");
    }
    let seen = first_line(&shell, &["watch", "a"]).await;
    assert!(seen.contains(&format!("since {shown}, ")), "{seen}");
    held.send(Signal::TERM);
    held.ended().await;
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    now.as_millis() as u64
}

/// Returns the first line of a command that does not end by itself.
async fn first_line(shell: &Shell, args: &[&str]) -> String {
    let mut command = shell.leasehold(args).spawn().expect("it starts");
    let stdout = BufReader::new(command.stdout.take().expect("a pipe"));
    let line = timeout(LIMIT, stdout.lines().next_line()).await.expect("in time");
    command.kill().await.expect("it runs");
    line.expect("it is UTF-8").expect("a line")
}

/// A store with many locks is listed page by page: the first locks are shown before the last ones are known, and the
/// memory does not grow with the locks that are held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_locks_are_listed_in_pages() {
    const COUNT: usize = 100_000;
    let store = crate::store::Redis::start().await;
    let shell = Shell::of(&store);
    let mut held = shell.hold(&["--ttl", "10m"], "a", "exec sleep 600").await;
    // Copies all keys of the lock, each of which begins with its name or has it in braces.
    let copies = "for _, key in ipairs(redis.call('KEYS', '*')) do for i = 2, tonumber(ARGV[1]) do \
                  redis.call('COPY', key, (string.gsub(key, 'a', 'a' .. i, 1))) end end";
    store.0.cli(&["EVAL", copies, "0", &COUNT.to_string()]);
    // The most memory of a child, and its time.
    let measured = "import os, resource, subprocess, time; began = time.time(); \
                    list = [os.environ['L'], 'ps', '--json', '--limit', '1000000']; \
                    subprocess.run(list, check=True, stdout=open('listed', 'w')); \
                    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, time.time() - began)";
    let output = Output::of(shell.command("python3", &["-c", measured])).await;
    let listed: Value = serde_json::from_str(&shell.read("listed")).expect("JSON");
    assert_eq!(listed["locks"].as_array().map(Vec::len), Some(COUNT), "{}", output.stderr);
    let (memory, seconds) = output.stdout.trim().split_once(' ').expect("two numbers");
    eprintln!("{COUNT} locks: {memory} KB, {seconds} s");
    let memory: usize = memory.parse().expect("a number");
    assert!(memory < 90_000, "{memory} KB");
    let first = first_line(&shell, &["ps", "--limit", "1000000"]).await;
    assert!(first.starts_with("NAME"), "{first}");
    held.send(Signal::TERM);
    held.ended().await;
}

/// The case of `leasehold watch a | head -1`, which must end without further changes.
#[tokio::test]
async fn who_watches_for_nobody_ends() {
    let shell = Shell::of(&File::start());
    let mut watch = shell.leasehold(&["watch", "a"]).spawn().expect("it starts");
    let mut line = [0; 1];
    let mut stdout = watch.stdout.take().expect("a pipe");
    stdout.read_exact(&mut line).await.expect("a first line");
    drop(stdout);
    let status = timeout(LIMIT, watch.wait()).await.expect("it ends").expect("it is ours");
    assert_eq!(status.code(), Some(128 + 13));
}
