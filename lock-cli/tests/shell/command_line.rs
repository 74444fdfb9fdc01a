//! Typing errors, the help, and the texts for shells and `man`.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::shell::{Output, Shell};
use crate::snapshot::compare;
use crate::store::{File, Store};

#[tokio::test]
async fn wrong_usage_exits_with_64_and_says_what_is_right() {
    let shell = Shell::of(&File::start());
    let long = "x".repeat(513);
    for (args, says) in [
        (&["rum"][..], "unrecognized subcommand"),
        (&["run", "a"], "CMD"),
        (&["run", "a", "--"], "CMD"),
        (&["run", "a", "true"], "-- <CMD>"),
        (&["run", "a", "true"], "after two dashes"),
        (&["run", "--wait", "1s", "--no-wait", "a", "--", "true"], "cannot be used with"),
        (&["run", "--wait", "1s", "--at-least", "1s", "a", "--", "true"], "give --once KEY too"),
        (&["hold", "--pid", "0", "a"], "--pid"),
        (&["run", "--remember", "1d", "a", "--", "true"], "--once <KEY>"),
        (&["run", "--shared", "--limit", "3", "a", "--", "true"], "cannot be used with"),
        (&["run", "--shared", "--take", "2", "a", "--", "true"], "cannot be used with"),
        (&["run", "--shared", "--once", "x", "a", "--", "true"], "cannot be used with"),
        (&["run", "--limit", "3", "--at-least", "1s", "a", "--", "true"], "cannot be used with"),
        (&["run", "--take", "2", "a", "--", "true"], "--limit <N>"),
        (&["run", "--limit", "0", "a", "--", "true"], "1..=1024"),
        (&["run", "--limit", "2", "--take", "3", "a", "--", "true"], "invalid permits, 3 of 2"),
        (&["run", "--once", "", "a", "--", "true"], "invalid occurrence"),
        (
            &["run", "--once", "x", "-E", "0", "a", "--", "true"],
            "0 says that the occurrence is done",
        ),
        (&["elect", "--ttl", "9s", "--margin", "5s", "a", "--", "true"], "choose 4s 500ms at most"),
        (&["run", "--at-least", "25h", "a", "--", "true"], "choose 10 ms to 24 h"),
        (&["run", "--once", "x", "--remember", "0s", "a", "--", "true"], "choose 10 ms to"),
        (&["run", "--ttl", "soon", "a", "--", "true"], "--ttl"),
        (&["run", "--ttl", "1ms", "a", "--", "true"], "choose 10 ms to 24 h"),
        (&["run", "", "--", "true"], "invalid lock name"),
        (&["run", "--label", "a\nb", "a", "--", "true"], "invalid label"),
        (&["inspect"], "Usage: leasehold inspect <NAME>"),
        (&["inspect", &long], "invalid lock name"),
        (&["inspect", "--url", "ftp://x", "a"], "no backend is called `ftp`"),
        (&["release", "a"], "--force"),
        (&["release", "--force", "--owner", "web-3", "a"], "8 hex digits"),
        (&["completions", "tcsh"], "possible values"),
        (&["man", "rum"], "no subcommand"),
        (&[], "Usage:"),
    ] {
        let Output { code, stdout, stderr } = shell.run(args).await;
        assert_eq!((code, &*stdout), (64, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

/// The subcommands of each build.
const VERBS: [&str; 13] = [
    "run", "hold", "acquire", "elect", "leader", "inspect", "ps", "watch", "runs", "release",
    "doctor", "completions", "man",
];

/// A tip that is far from the intended word is worse than none.
#[tokio::test]
async fn tips_name_what_was_nearly_typed() {
    let shell = Shell::of(&File::start());
    for (args, tip) in [
        (&["rum", "a"][..], Some("'run'")),
        (&["run", "--nowait", "a", "--", "true"], Some("'--no-wait'")),
        (&["inspect", "--jsn", "a"], Some("'--json'")),
        (&["exec", "a", "--", "true"], None),
        (&["status", "a"], Some("leasehold inspect NAME")),
        (&["who", "a"], Some("leasehold inspect NAME")),
        (&["lock", "a"], Some("leasehold run NAME -- CMD")),
        (&["unlock", "a"], Some("leasehold release")),
        (&["version"], Some("leasehold --version")),
        (&["run", "--timeout", "1s", "a", "--", "true"], None),
        (&["run", "--force", "a", "--", "true"], None),
        (&["ps", "--all"], None),
    ] {
        let Output { code, stderr, .. } = shell.run(args).await;
        assert_eq!((code, stderr.contains("tip:")), (64, tip.is_some()), "{args:?}: {stderr}");
        assert!(stderr.contains(tip.unwrap_or("error: un")), "{args:?}: {stderr}");
        for misled in ["elect", "at-most", "--once", "as a value"] {
            assert!(!stderr.contains(misled), "{args:?}: {stderr}");
        }
    }
}

#[tokio::test]
async fn c32_a_url_in_the_wrong_place_is_not_repeated_with_its_password() {
    let shell = Shell::of(&File::start());
    for url in [
        "redis://me:pa55word@host/",
        "redis://me:a 'pa55word\"b@host/",
        "redis+unix:/x?PASS=pa55word",
        "postgres:///x?password=pa55word",
    ] {
        for args in [
            &["inspect", "a", url][..],
            &["inspect", url],
            &["ps", url],
            &["run", "--label", url, "a", "--", "true"],
            &["run", "--ttl", url, "a", "--", "true"],
            &["run", &format!("--ttl={url}"), "a", "--", "true"],
            &["run", "a", url],
            &["--ulr", url, "ps"],
            &[url],
        ] {
            let output = shell.run(args).await;
            assert_eq!((output.code, &*output.stdout), (64, ""), "{args:?}: {}", output.stderr);
            assert!(!output.stderr.contains("pa55word"), "{args:?}: {}", output.stderr);
        }
    }
    let shell = Shell::with_url("redis://me:pa55word@host/");
    let output = shell.run(&["run", "--help"]).await;
    assert_eq!((output.code, &*output.stderr), (0, ""));
    assert!(!output.stdout.contains("pa55word"));
}

#[tokio::test]
async fn help_teaches() {
    let shell = Shell::of(&File::start());
    let help = shell.run(&["--help"]).await;
    assert_eq!((help.code, &*help.stderr), (0, ""));
    if cfg!(all(feature = "etcd", feature = "postgres", feature = "zookeeper")) {
        compare("", "help", &help.stdout);
    }
    compare("", "help-run", &shell.run(&["run", "--help"]).await.stdout);
    for subcommand in ["inspect", "ps", "watch", "release", "doctor"] {
        let help = shell.run(&[subcommand, "--help"]).await;
        assert_eq!((help.code, &*help.stderr), (0, ""), "{subcommand}");
        assert!(help.stdout.contains("Example"), "{subcommand}");
    }
    let version = shell.run(&["--version"]).await;
    assert_eq!(
        (version.code, &*version.stdout),
        (0, concat!("leasehold ", env!("CARGO_PKG_VERSION"), "\n"))
    );
}

/// `-h` is for a glance: it fits a terminal of 24 lines and 80 columns. `--help` is for reading, in groups.
#[tokio::test]
async fn short_help_is_one_screen_and_long_help_is_in_groups() {
    let shell = Shell::of(&File::start());
    for verb in VERBS.into_iter().map(Some).chain([None]) {
        let mut command = shell.leasehold(&[verb.as_slice(), &["-h"]].concat());
        command.env("COLUMNS", "80");
        let help = Output::of(command).await;
        let lines = help.stdout.lines().count();
        assert!(help.code == 0 && lines <= 24, "{verb:?}: {lines} lines\n{}", help.stdout);
        let width = help.stdout.lines().map(|line| line.chars().count()).max();
        assert!(width <= Some(80), "{verb:?}: {width:?} columns\n{}", help.stdout);
    }
    for (verb, groups) in [
        ("run", &["Lock:", "Run once:", "Command:", "Output:", "Examples:"][..]),
        ("elect", &["Lock:", "Command:", "Output:", "Examples:"]),
        ("hold", &["Lock:", "Output:", "Examples:"]),
    ] {
        let help = shell.run(&[verb, "--help"]).await.stdout;
        for group in groups {
            assert!(help.lines().any(|line| line == *group), "{verb} has no {group}\n{help}");
        }
    }
}

#[tokio::test]
async fn completions_and_manual_pages_are_printed() {
    let shell = Shell::of(&File::start());
    for (name, has) in
        [("bash", "complete -F"), ("zsh", "#compdef leasehold"), ("fish", "complete -c leasehold")]
    {
        let script = shell.run(&["completions", name]).await;
        assert_eq!((script.code, &*script.stderr), (0, ""), "{name}");
        assert!(script.stdout.contains(has) && script.stdout.contains("no-wait"), "{name}");
    }
    let page = shell.run(&["man"]).await;
    assert!(page.code == 0 && page.stdout.contains(".TH leasehold 1"), "{}", page.stdout);
    let page = shell.run(&["man", "run"]).await;
    assert!(page.code == 0 && page.stdout.contains("LEASEHOLD_TOKEN"), "{}", page.stdout);
    let synopsis = r"\fBleasehold run\fR [OPTIONS] <NAME>... \-\- <CMD>...";
    assert!(page.stdout.contains(synopsis), "{}", page.stdout);
    let notes = page.stdout.split_once(".nf\n").and_then(|(_, notes)| notes.split_once(".fi"));
    assert!(notes.expect("lines as they are").0.contains("\n  leasehold run backup"));
    assert!(page.stdout.is_ascii(), "{}", page.stdout);
}

#[tokio::test]
async fn what_needs_no_url_looks_at_none() {
    use std::os::unix::ffi::OsStrExt;

    let shell = Shell::without_url();
    for (args, code) in [(&["man"][..], 0), (&["completions", "bash"], 0), (&["ps"], 64)] {
        let mut command = shell.leasehold(args);
        command.env("LEASEHOLD_URL", std::ffi::OsStr::from_bytes(b"\xff"));
        let output = Output::of(command).await;
        assert_eq!(output.code, code, "{args:?}: {}", output.stderr);
    }
}

/// With another directory the command would exclude nobody.
#[tokio::test]
async fn locks_that_nobody_else_sees_are_refused() {
    for (url, says) in [
        ("memory:", "no other process"),
        ("memory:x", "no other process"),
        ("file:locks", "from the root"),
        ("file:~/locks", "from the root"),
        ("file:./locks", "from the root"),
    ] {
        let shell = Shell::with_url(url);
        for args in [&["run", "a", "--", "touch", "entered"][..], &["inspect", "a"], &["ps"]] {
            let Output { code, stdout, stderr } = shell.run(args).await;
            assert_eq!((code, &*stdout), (64, ""), "{url} {args:?}: {stderr}");
            assert!(stderr.contains(says), "{url}: {stderr}");
        }
        let files = std::fs::read_dir(shell.file("")).expect("the folder").count();
        assert_eq!(files, 0, "{url}: something was made");
    }
}

#[tokio::test]
async fn c14_a_directory_that_cannot_be_used_is_unavailable() {
    let shell = Shell::with_url("file:/dev/null/locks");
    for args in [&["run", "a", "--", "true"][..], &["inspect", "a"], &["ps"], &["doctor"]] {
        let Output { code, stdout, stderr } = shell.run(args).await;
        assert_eq!((code, &*stdout), (69, ""), "{args:?}: {stderr}");
        assert!(stderr.contains("/dev/null/locks") && stderr.lines().count() == 1, "{stderr}");
    }
}

/// A shell may set `XDG_STATE_HOME`, and cron does not: both get the same directory.
#[tokio::test]
async fn without_a_url_locks_are_in_one_directory_of_the_user_whatever_the_environment() {
    let shell = Shell::without_url();
    let home = shell.file("my home%20");
    std::fs::create_dir(&home).expect("a folder");
    for variable in ["XDG_STATE_HOME", "XDG_DATA_HOME"] {
        let mut command = shell.leasehold(&["run", "a", "--", "true"]);
        command.env(variable, shell.file("elsewhere")).env("HOME", &home);
        assert_eq!(Output::of(command).await.code, 0);
        assert!(home.join(".local/state/leasehold").is_dir(), "~/.local/state/leasehold");
        assert!(!shell.file("elsewhere").exists(), "{variable}");
    }
    for home in [None, Some("relative")] {
        let mut command = shell.leasehold(&["run", "a", "--", "true"]);
        command.env_remove("HOME").envs(home.map(|home| ("HOME", home)));
        let output = Output::of(command).await;
        assert!(output.code == 64 && output.stderr.contains("LEASEHOLD_URL"), "{}", output.stderr);
    }
}

/// An empty URL often means a missing secret. Without this refusal, each machine would use different locks.
#[tokio::test]
async fn an_empty_url_is_refused() {
    let shell = Shell::with_url("");
    std::fs::write(shell.file("empty"), "\n").expect("a file");
    for (args, from) in [
        (&["run", "a", "--", "true"][..], "LEASEHOLD_URL"),
        (&["--url", "", "ps"], "--url"),
        (&["--url-file", "empty", "ps"], "empty"),
        (&["--url-file", "none", "ps"], "none"),
        (&["--url-file", "empty", "--url", "file:/x", "ps"], "cannot be used with"),
    ] {
        let output = shell.run(args).await;
        assert_eq!(output.code, 64, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(from), "{args:?}: {}", output.stderr);
    }
    assert!(!shell.file("leasehold").exists(), "no lock of this machine");
}

#[tokio::test]
async fn a_url_is_read_from_a_file_and_its_store_is_named() {
    let store = File::start();
    let shell = Shell::without_url();
    std::fs::write(shell.file("url"), store.url() + "?prefix=x:\n").expect("a file");
    let doctor = shell.run(&["--url-file", "url", "doctor"]).await;
    let named = format!("{} (this machine alone)\n", store.url());
    assert!(doctor.stdout.starts_with(&named), "{}{}", doctor.stdout, doctor.stderr);
    // Whoever could write the file could give this host locks of its own.
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(shell.file("url"), mode(0o666)).expect("a mode");
    let refused = shell.run(&["--url-file", "url", "doctor"]).await;
    assert!(refused.code == 64 && refused.stderr.contains("chmod o-w"), "{}", refused.stderr);
    std::fs::set_permissions(shell.file("url"), mode(0o644)).expect("a mode");
    let run = shell.run(&["-v", "--url-file", "url", "run", "a", "--", "true"]).await;
    assert!(run.code == 0 && run.stderr.contains(&store.url()), "{}", run.stderr);
    // A secret often ends with a line break.
    let doctor = Shell::with_url(&(store.url() + "\n")).run(&["doctor"]).await;
    assert!(doctor.stdout.starts_with(&named), "{}{}", doctor.stdout, doctor.stderr);
}

/// Each host would lead, and run an occurrence once more.
#[tokio::test]
async fn what_should_run_on_one_host_warns_without_a_server() {
    let store = File::start();
    for (options, warns) in [
        (&["elect"][..], true),
        (&["elect", "-q"], false),
        (&["run", "--once", "x"], true),
        (&["run", "-q", "--once", "y"], false),
        (&["run", "--at-least", "1s"], true),
        (&["run"], false),
    ] {
        for shell in [Shell::without_url(), Shell::of(&store)] {
            let output = shell.run(&[options, &[&options.concat(), "--", "true"]].concat()).await;
            assert_eq!(output.code, 0, "{options:?}: {}", output.stderr);
            let told = output.stderr.contains("name a server");
            assert_eq!(told, warns, "{options:?}: {}", output.stderr);
        }
    }
}

#[tokio::test]
async fn a_variable_that_nobody_reads_is_refused() {
    let shell = Shell::of(&File::start());
    let mut command = shell.leasehold(&["run", "a", "--", "true"]);
    command.env("LEASEHOLD_TTL", "10m");
    let output = Output::of(command).await;
    assert!(output.code == 64 && output.stderr.contains("use --ttl"), "{}", output.stderr);
    let mut command = shell.leasehold(&["run", "a", "--", "true"]);
    command.env("LEASEHOLD_VERSION", "0.1.0").env("LEASEHOLD_SERVICE_HOST", "10.0.0.7");
    assert_eq!(Output::of(command).await.code, 0, "as images and Kubernetes set them");
    // Words of a nested command are not options.
    let nested = ["run", "a", "--", "sh", "-c", "\"$L\" run b -- true"];
    assert_eq!(shell.run(&nested).await.code, 0);
}

#[tokio::test]
async fn c14_a_busy_lock_has_the_exit_code_that_is_asked_for() {
    let shell = Shell::of(&File::start());
    let mut holder = shell.hold(&[], "a", "exec sleep 60").await;
    for args in [&["-n", "-E", "0"][..], &["-w", "1s", "--busy-exit", "0"], &["-nqE0"]] {
        let output = shell.run(&[&["run"], args, &["a", "--", "false"]].concat()).await;
        assert_eq!(output.code, 0, "{args:?}: {}", output.stderr);
        assert_eq!(output.stderr.is_empty(), args == ["-nqE0"], "{}", output.stderr);
    }
    assert_eq!(shell.run(&["inspect", "--exit-code", "a"]).await.code, 0);
    assert_eq!(shell.run(&["inspect", "--exit-code", "b"]).await.code, 1);
    holder.send(rustix::process::Signal::TERM);
    holder.ended().await;
}

/// A letter of Chinese or Japanese takes two columns of a terminal.
#[tokio::test]
async fn the_columns_of_the_list_stand_below_each_other() {
    let shell = Shell::of(&File::start());
    let list = ["run", "在庫", "--", "sh", "-c", "\"$L\" run abcd -- \"$L\" list"];
    let printed = shell.run(&list).await.stdout;
    let mut rows = printed.lines().skip(1);
    let (ascii, wide) = (rows.next().expect("a row"), rows.next().expect("a row"));
    assert!(ascii.starts_with("abcd  ") && wide.starts_with("在庫  "), "{printed}");
    assert!(!wide.starts_with("在庫   "), "{printed}");
}

/// The case of `leasehold ps | head -0`.
#[tokio::test]
async fn a_reader_that_went_away_is_no_failure_to_tell_of() {
    let store = File::start();
    let shell = Shell::of(&store);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = shell.leasehold(&["ps"]);
    let child = command.stdout(Stdio::from(writer)).spawn().expect("it starts");
    let output = child.wait_with_output().await.expect("it ends");
    assert_eq!(output.status.code(), Some(128 + 13));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(store.foreign_take("a").await);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_that_is_printed_is_one_that_works() {
    let server = lock_testkit::PostgresServer::start().await;
    let options = ["schema", "postgres", "--schema", "ops", "--table", "jobs"];
    let printed = Shell::of(&File::start()).run(&options).await;
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    server.psql(&printed.stdout);
    // A user who may use existing objects, and create none.
    server.psql("CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA ops TO app");
    server.psql("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA ops TO app");
    // The command line is right; the server must be repaired.
    for (schema, code) in [("missing", 69), ("ops", 0)] {
        let url = server.url_as("app", "postgres");
        let url = format!("{url}?lock_schema={schema}&lock_table=jobs");
        let run = Shell::with_url(&url).run(&["run", "a", "--", "true"]).await;
        assert_eq!(run.code, code, "{}", run.stderr);
    }
    let bad = Shell::of(&File::start()).run(&["schema", "postgres", "--table", "a-b"]).await;
    assert_eq!(bad.code, 64, "{}", bad.stderr);
}
