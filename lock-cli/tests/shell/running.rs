//! `leasehold run`: the environment of the command, and its end.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lock_testkit::{eventually, is_running};
use rustix::process::Signal;

use crate::shell::{Output, Shell, send};
use crate::store::{File, Store};
use crate::{LIMIT, SLACK};

pub(crate) async fn c14_exit_codes_are_those_of_the_command(store: &impl Store) {
    let shell = Shell::of(store);
    for (command, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -9 $$"], 128 + 9),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["no-such-program"], 127),
        (&["/dev/null"], 126),
    ] {
        let output = shell.run(&[&["run", "--no-wait", "a", "--"], command].concat()).await;
        assert_eq!(output.code, code, "{command:?}: {}", output.stderr);
        // Each run finds the lock released by the one before.
    }
}

pub(crate) async fn the_command_knows_its_lock_and_its_output_is_its_own(store: &impl Store) {
    let shell = Shell::of(store);
    let script = r#"echo "$LEASEHOLD_NAME:$LEASEHOLD_TOKEN"; echo err >&2; cat"#;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let output = shell.run(&["run", "a b/ü", "--", "sh", "-c", script]).await;
        let (name, token) = output.stdout.trim_end().rsplit_once(':').expect("both");
        assert_eq!((name, &*output.stderr, output.code), ("a b/ü", "err\n", 0));
        tokens.push(token.parse::<u64>().expect("a token"));
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}

pub(crate) async fn c39_a_command_has_all_of_its_locks_or_none(store: &impl Store) {
    let shell = Shell::of(store);
    let script = r#"echo "$LEASEHOLD_NAME $LEASEHOLD_TOKEN $LEASEHOLD_TOKENS""#;
    let output = shell.run(&["run", "b", "a", "b", "--", "sh", "-c", script]).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    let (token, tokens) =
        output.stdout.trim().strip_prefix("b ").and_then(|rest| rest.split_once(' ')).expect("b");
    let tokens: BTreeMap<String, u64> = serde_json::from_str(tokens).expect("an object");
    assert_eq!(tokens.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tokens["b"].to_string(), token);

    let mut holder = shell.hold(&[], "b", "exec sleep 60").await;
    let refused = shell.run(&["run", "--no-wait", "b", "a", "--", "touch", "entered"]).await;
    assert_eq!((refused.code, &*refused.stdout), (75, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("\"b\" was not acquired"), "{}", refused.stderr);
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 0);
    assert!(!shell.file("entered").exists());
    holder.send(Signal::TERM);
    holder.ended().await;
}

pub(crate) async fn signals_are_passed_on(store: &impl Store) {
    let shell = Shell::of(store);
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("WINCH", Signal::WINCH),
    ] {
        let script = format!(
            "trap 'echo > got-{name}; exit 9' {name}; echo > ready-{name}; \
             while :; do sleep 0.05; done"
        );
        let mut held = shell.start(&["run", "a", "--", "sh", "-c", &script]);
        shell.appears(&format!("ready-{name}")).await;
        held.send(signal);
        assert_eq!(held.code().await, 9, "{name}: {}", held.stderr());
        assert!(shell.file(&format!("got-{name}")).exists(), "{name}");
    }
}

pub(crate) async fn c19_who_is_interrupted_while_waiting_leaves_the_queue(store: &impl Store) {
    let shell = Shell::of(store);
    let mut holder = shell.hold(&[], "a", "exec sleep 60").await;
    let mut waiting = shell.start(&["-v", "run", "a", "--", "touch", "entered"]);
    waiting.waits().await;
    // A waiter ignores this signal.
    waiting.send(Signal::WINCH);
    waiting.send(Signal::INT);
    assert_eq!(waiting.code().await, 130, "{}", waiting.stderr());
    let seen = shell.run(&["inspect", "a", "--json"]).await.stdout;
    assert!(seen.contains(r#""waiters":0"#) || seen.contains(r#""waiters":null"#), "{seen}");
    holder.send(Signal::TERM);
    assert_eq!(holder.code().await, 128 + 15);
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 0);
    assert!(!shell.file("entered").exists());
}

pub(crate) async fn what_was_ignored_stays_ignored(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "trap '' HUP INT TERM; exec $L run a -- sh -c 'echo > ready; while [ ! -e go ]; do sleep 0.01; done; exit 8'";
    let mut command = shell.command("sh", &["-c", script]);
    // In its own group, so that only it gets the signal.
    command.process_group(0);
    let child = command.spawn().expect("it starts");
    shell.appears("ready").await;
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        send(child.id().expect("it runs"), signal);
    }
    // The signal is passed on before the command sees the file.
    std::fs::write(shell.file("go"), "").expect("a file");
    let ended = tokio::time::timeout(LIMIT, child.wait_with_output()).await.expect("it ends");
    assert_eq!(ended.expect("it is ours").status.code(), Some(8));
}

pub(crate) async fn the_command_ends_with_a_killed_leasehold(store: &impl Store) {
    let shell = Shell::of(store);
    let mut held = shell.hold(&[], "a", "exec sleep 600").await;
    let command = shell.pid("pid").await;
    assert!(is_running(command));
    held.send(Signal::KILL);
    held.ended().await;
    eventually("the command is gone", LIMIT, async || !is_running(command)).await;
}

/// SIGSTOP of the command alone is not job control: the lock is kept and renewed.
pub(crate) async fn a_command_that_is_stopped_keeps_its_lock(store: &impl Store) {
    let shell = Shell::of(store);
    let ttl = Duration::from_secs(9);
    let mut held =
        shell.hold(&["--ttl", "9s"], "a", "while [ ! -e go ]; do sleep 0.01; done").await;
    let command = shell.pid("pid").await;
    send(command, Signal::STOP);
    tokio::time::sleep(ttl + SLACK).await;
    assert_eq!(shell.run(&["run", "--no-wait", "a", "--", "true"]).await.code, 75);
    send(command, Signal::CONT);
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(held.code().await, 0, "{}", held.stderr());
}

/// As in a job of CI: its reader sees why nothing happens.
#[tokio::test]
async fn a_wait_is_told_in_a_log_after_ten_seconds() {
    let shell = Shell::of(&File::start());
    let mut holder = shell.hold(&["--label", "web-3"], "a", "exec sleep 600").await;
    let mut waiters = [&[][..], &["-q"]]
        .map(|options| shell.start(&[&["run"], options, &["a", "--", "true"]].concat()));
    let told = "for \"a\": held by \"web-3\"";
    eventually("the wait is told", LIMIT, async || waiters[0].stderr().contains(told)).await;
    assert!(waiters[0].stderr().contains("leasehold: waiting 1"), "{}", waiters[0].stderr());
    assert_eq!(waiters[0].stderr().lines().count(), 1, "{}", waiters[0].stderr());
    holder.send(Signal::TERM);
    holder.ended().await;
    for waiter in &mut waiters {
        assert_eq!(waiter.code().await, 0, "{}", waiter.stderr());
    }
    assert_eq!(waiters[1].stderr(), "");
}

#[tokio::test]
async fn c14_an_absent_server_is_unavailable() {
    let shell = Shell::with_url("redis://:pa55word@127.0.0.1:1/");
    for args in [
        &["run", "-q", "a", "--", "touch", "entered"][..],
        &["inspect", "a"],
        &["ps"],
        &["watch", "a"],
        &["release", "--force", "a"],
        &["doctor"],
    ] {
        let Output { code, stdout, stderr } = shell.run(args).await;
        assert_eq!((code, &*stdout), (69, ""), "{args:?}: {stderr}");
        assert!(stderr.starts_with("leasehold: ") && stderr.lines().count() == 1, "{stderr}");
        assert!(!stderr.contains("pa55word"), "{stderr}");
    }
    assert!(!shell.file("entered").exists());
}

#[tokio::test]
async fn c32_a_server_that_cannot_be_reached_is_named_without_its_password() {
    let mut urls = vec![
        ("redis://u:pa55word@127.0.0.1:1/2", "redis://127.0.0.1:1/2"),
        ("rediss://:pa55word@127.0.0.1:1", "rediss://127.0.0.1:1"),
        ("redis+unix:///no/socket?pass=pa55word", "redis+unix:///no/socket"),
        ("redis-cluster://:pa55word@127.0.0.1:1", "redis-cluster://127.0.0.1:1"),
        ("redis-sentinel://:pa55word@127.0.0.1:1/m", "redis-sentinel://127.0.0.1:1/m"),
        (
            "redis-quorum://:pa55word@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
            "redis-quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        ),
    ];
    if cfg!(feature = "etcd") {
        urls.push(("etcd://u:pa55word@127.0.0.1:1", "etcd://127.0.0.1:1"));
        urls.push(("etcds://u:pa55word@127.0.0.1:1", "etcds://127.0.0.1:1"));
    }
    if cfg!(feature = "postgres") {
        urls.push(("postgres://u:pa55word@127.0.0.1:1/db", "postgres://127.0.0.1:1/db"));
    }
    for (url, place) in urls {
        let Output { code, stderr, .. } = Shell::with_url(url).run(&["inspect", "a"]).await;
        assert_eq!(code, 69, "{url}: {stderr}");
        assert!(stderr.contains(&format!(": {place}: ")), "{url}: {stderr}");
        assert!(!stderr.contains("pa55word"), "{stderr}");
    }
}

#[tokio::test]
async fn who_is_quiet_says_nothing_but_errors() {
    let shell = Shell::of(&File::start());
    let mut holder = shell.hold(&[], "a", "exec sleep 60").await;
    for wait in [&["--no-wait"][..], &["--wait", "1s"]] {
        let args = [&["run", "-q"], wait, &["a", "--", "true"]].concat();
        let Output { code, stdout, stderr } = shell.run(&args).await;
        assert_eq!((code, &*stdout, &*stderr), (75, "", ""), "{wait:?}");
    }
    holder.send(Signal::TERM);
    holder.ended().await;
    let failed = shell.run(&["run", "--quiet", "a", "--", "no-such-program"]).await;
    assert!(failed.code == 127 && failed.stderr.contains("no-such-program"), "{}", failed.stderr);
}

/// The command is started through our own program, which is made non-executable here.
#[tokio::test]
async fn c14_a_process_that_cannot_be_started_leaves_no_lock() {
    let store = File::start();
    let shell = Shell::of(&store);
    let holder = shell.hold(&[], "a", "exec sleep 60").await;
    let copied = Output::of(shell.command("sh", &["-c", "cp $L leasehold"])).await;
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    let program = shell.file("leasehold");
    let log = std::fs::File::create(shell.file("log")).expect("a file");
    let mut waiting =
        shell.command(&program.display().to_string(), &["-v", "run", "a", "--", "true"]);
    let mut waiting = waiting.stderr(log).spawn().expect("it starts");
    eventually("it waits", LIMIT, async || shell.read("log").contains("waiting")).await;
    std::fs::set_permissions(&program, Permissions::from_mode(0o600)).expect("it is ours");
    holder.send(Signal::TERM);
    let status = tokio::time::timeout(LIMIT, waiting.wait()).await.expect("it ends");
    assert_eq!(status.expect("it is ours").code(), Some(71), "{}", shell.read("log"));
    assert!(store.foreign_take("a").await, "it is held still");
}

/// C39: the names of 300 locks fit into no variable, and the command runs without that variable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c39_a_command_runs_under_hundreds_of_long_names() {
    let shell = Shell::of(&File::start());
    let names: Vec<String> = (0..300).map(|number| format!("{number:0480}")).collect();
    let names = names.iter().map(String::as_str);
    let tells = ["--", "sh", "-c", "echo ${LEASEHOLD_TOKENS-none} $LEASEHOLD_TOKEN"];
    let ran = shell.run(&["run"].into_iter().chain(names).chain(tells).collect::<Vec<_>>()).await;
    assert!(ran.code == 0 && ran.stdout.starts_with("none 1"), "{} {}", ran.stdout, ran.stderr);
}
