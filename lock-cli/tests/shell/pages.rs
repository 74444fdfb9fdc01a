//! Runs the commands that the pages, the help and the files of `packaging/` show.
//!
//! A block that takes a lock runs four times: alone, beside another holder, on a store that refuses, and without
//! `leasehold`. Its work may be done only in the first, and in the second after the holder has ended. A block that
//! looks at locks runs on a store with some. The output of a `console` block is compared. A command that builds or
//! installs is not run: what it names must exist.

mod block;
mod named;
mod sandbox;

use std::time::Duration;

use lock_testkit::eventually;

use self::block::Block;
use self::sandbox::Sandbox;
use crate::LIMIT;
use crate::shell::{Output, Shell};
use crate::store::File;

/// Blocks that are not run: a part of each, and the reason.
const NOT_RUN: [(&str, &str); 1] = [(
    "hold --json-lines",
    "its input asks for the locks: tests of `holding` and `languages` run it",
)];

/// The locks that blocks look at.
const HELD: [&str; 3] = ["backup", "deploy:shop", "encode"];

/// The run that blocks look at: the lock, and the key.
const RECORDED: [&str; 2] = ["nightly", "2026-11-21"];

/// The election that blocks look at.
const ELECTION: &str = "indexer";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_block_of_the_pages_does_what_it_shows() {
    let blocks = block::of_pages();
    for page in ["README.md", "docs/cli.md", "docs/packages.md", "lock-cli/README.md"] {
        assert!(blocks.iter().any(|block| block.place.starts_with(page)), "no block of {page}");
    }
    check(&blocks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_example_of_the_help_does_what_it_shows() {
    let blocks = block::of_help().await;
    assert!(blocks.len() > 30, "{blocks:?}");
    for (part, why) in NOT_RUN {
        assert!(blocks.iter().any(|block| block.text.contains(part)), "{part} is gone: {why}");
    }
    check(&blocks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_line_of_packaging_does_what_it_shows() {
    let blocks = block::of_packaging();
    assert_eq!(blocks.len(), 4, "{blocks:?}");
    check(&blocks).await;
}

async fn check(blocks: &[Block]) {
    let with_value = sandbox::options_with_value().await;
    assert!(with_value.iter().any(|option| option == "--wait"), "{with_value:?}");
    for block in blocks.iter().filter(|block| !is_left_out(block)) {
        for line in block.text.lines() {
            refuse_a_skip_that_looks_done(&block.place, line);
            refuse_a_span_beyond_the_period(&block.place, line);
        }
        if block.is_console {
            prints(block).await;
            continue;
        }
        let lines = block.text.lines().filter_map(command_of);
        let (named, run): (Vec<String>, Vec<String>) =
            lines.partition(|line| named::is_named(line));
        named.iter().for_each(|line| named::check(&block.place, line));
        let script = run.join("\n") + "\n";
        match ["run", "hold", "elect"]
            .iter()
            .any(|verb| script.contains(&format!("leasehold {verb} ")))
        {
            true => takes(&block.place, &script, &with_value).await,
            false if run.is_empty() => {}
            false if script.contains("leasehold ") => looks(&block.place, &script).await,
            false => is_understood(&block.place, &script).await,
        }
    }
}

fn is_left_out(block: &Block) -> bool {
    let needs_postgres = block.text.contains("leasehold schema") && !cfg!(feature = "postgres");
    needs_postgres || NOT_RUN.iter().any(|(part, _)| block.text.contains(part))
}

/// A run that is killed is tried again within the TTL, when the lock is still held: with 0 in place of 75 the supervisor
/// believes that the work is done.
fn refuse_a_skip_that_looks_done(place: &str, line: &str) {
    let runs_once = line.contains("--once") || line.contains("--at-least");
    let is_hidden = ["--busy-exit 0", "-E 0"].iter().any(|is| line.contains(is));
    assert!(!(runs_once && is_hidden), "{place}: {line}");
}

/// A run whose lock may outlast the period is skipped every other time: the lock lasts for up to a TTL more than the span.
fn refuse_a_span_beyond_the_period(place: &str, line: &str) {
    let minutes =
        line.strip_prefix("*/").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    let Some(minutes) = minutes.filter(|_| line.contains("--at-least ")) else { return };
    let span = |option: &str| {
        let text = line.split(option).nth(1)?.trim_start().split(' ').next()?;
        Some(humantime::parse_duration(text).expect(place))
    };
    let ttl = span("--ttl").unwrap_or(Duration::from_secs(30));
    let kept = span("--at-least").expect(place) + ttl;
    assert!(kept <= Duration::from_secs(60 * minutes), "{place}: {line}");
}

/// Returns a line without its comment and without the schedule of cron; `None` if nothing is left.
fn command_of(line: &str) -> Option<String> {
    let is_comment = line.trim_start().starts_with('#') && !line.starts_with("#!");
    let line = line.split("  #").next().filter(|line| !is_comment && !line.trim().is_empty())?;
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let is_time = |word: &&str| word.chars().all(|c| c.is_ascii_digit() || "*/,-".contains(c));
    match &words[..] {
        [times @ .., command] if times.len() == 5 && times.iter().all(is_time) => {
            Some(command.replace("\\%", "%"))
        }
        [assignment] if assignment.starts_with("LEASEHOLD_URL=") => Some(format!("export {line}")),
        _ => Some(line.trim_end().to_owned()),
    }
}

/// S4: the work of a script that takes a lock is done under the lock, or not at all.
async fn takes(place: &str, script: &str, with_value: &[String]) {
    let free = Sandbox::of(script);
    // A holder that reads its input gives the lock back at the end of it, also before the lock is acquired.
    let mut alone = free.start(true);
    let works = async || alone.has_ended() || !free.trace().is_empty();
    eventually("it works or ends", LIMIT, works).await;
    let code = alone.code().await;
    assert_eq!(code, 0, "{place}, alone: {}", free.stderr());
    assert!(!free.trace().is_empty(), "{place}, alone: nothing was done: {}", free.stderr());
    let names = free.names(with_value);
    assert!(!names.is_empty(), "{place}: no lock was asked for");
    beside_another(place, script, &names).await;
    let bad = [
        (Sandbox::of(script).refused(), "on a store that refuses"),
        (Sandbox::of(script).without_leasehold(), "without leasehold"),
    ];
    for (sandbox, when) in bad {
        let code = sandbox.run().await;
        assert_ne!(code, 0, "{place}, {when}: {}", sandbox.stderr());
        assert_eq!(sandbox.trace(), "", "{place}, {when}: {}", sandbox.stderr());
    }
}

async fn beside_another(place: &str, script: &str, names: &[String]) {
    let sandbox = Sandbox::of(script);
    let holder = sandbox.hold(names).await;
    let mut started = sandbox.start(true);
    eventually("it waits or ends", LIMIT, async || {
        let mut waiters = 0;
        for name in names {
            waiters += sandbox.inspect(name).await["waiters"].as_u64().unwrap_or_default();
        }
        started.has_ended() || waiters > 0
    })
    .await;
    let waits = !started.has_ended();
    let stderr = sandbox.stderr();
    assert_eq!(sandbox.trace(), "", "{place}, beside another holder: {stderr}");
    sandbox::end(holder).await;
    if waits {
        eventually("its turn", LIMIT, async || !sandbox.trace().is_empty()).await;
    }
    let code = started.code().await;
    let skipped = if script.contains("--busy-exit") { 0 } else { 75 };
    assert_eq!(code, if waits { 0 } else { skipped }, "{place}: {}", sandbox.stderr());
}

/// Runs a script that looks at locks.
async fn looks(place: &str, script: &str) {
    let sandbox = Sandbox::of(script);
    let holder = sandbox.hold(&HELD.map(str::to_owned)).await;
    let leader = sandbox.lead(ELECTION).await;
    sandbox.name_owner("encode").await;
    sandbox.record(RECORDED).await;
    if script.contains(" --follow") || script.contains("leasehold watch ") {
        let _started = sandbox.start(false);
        sandbox.prints().await;
    } else {
        let code = sandbox.run().await;
        assert_eq!(code, 0, "{place}: {}", sandbox.stderr());
    }
    sandbox::end(holder).await;
    sandbox::end(leader).await;
}

/// Checks a URL that a block sets: it must name a kind of server, which is not there.
async fn is_understood(place: &str, script: &str) {
    let (_, url) = script.trim().split_once("export LEASEHOLD_URL=").expect(place);
    let seen = Shell::with_url(url).run(&["ps"]).await;
    assert_eq!(seen.code, 69, "{place}: {}", seen.stderr);
}

/// Compares the output of a block with the real one.
async fn prints(block: &Block) {
    let shell = Shell::of(&File::start());
    let typed = block.text.lines().filter_map(|line| line.strip_prefix("$ "));
    // Prints each line, and then runs it.
    let script: String = typed
        .map(|line| format!("code=$?; cat <<'END'\n$ {line}\nEND\n(exit $code)\n{line}\n"))
        .collect();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_leasehold"));
    let folder = program.parent().expect("a folder").display();
    let mut command = shell.command("sh", &["-c", &format!("exec 2>&1\n{script}")]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{folder}:{path}"));
    let printed = Output::of(command).await.stdout;
    // The reader's store is a server.
    let lines = printed.lines().filter(|line| !line.contains("the locks are files of this host"));
    let printed = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(lasting(&printed), lasting(&block.text), "{}", block.place);
}

/// Removes the parts that differ between runs: spacing, and all words with a digit; those of JSON end at its
/// quotes and commas.
fn lasting(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || "\",(){}".contains(c));
    let words = words.filter(|word| !word.is_empty()).map(|word| {
        let is_number = word.contains(|c: char| c.is_ascii_digit()) && word != "75";
        if is_number { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}
