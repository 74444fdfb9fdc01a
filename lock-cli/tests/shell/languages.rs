//! Runs the helpers of `docs/other_languages.md` in programs of their languages.

use std::fs;
use std::path::Path;

use crate::shell::{Output, Shell};
use crate::store::File;

const PAGE: &str = include_str!("../../../docs/other_languages.md");

/// Returns the first code block in a language after a heading.
fn helper(heading: &str, language: &str) -> &'static str {
    let (_, section) = PAGE.split_once(&format!("## {heading}\n")).expect("a heading");
    let (_, rest) = section.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

/// Runs a program after the helper, with `leasehold` in its path.
async fn run(interpreter: &str, helper: &str, program: &str) {
    let shell = Shell::of(&File::start());
    let path = shell.file("program");
    fs::write(&path, format!("{helper}\n{program}")).expect("a file");
    let mut command = shell.command(interpreter, &[path.to_str().expect("UTF-8")]);
    let beside = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", beside.display()));
    let output = Output::of(command).await;
    assert_eq!(
        (output.code, &*output.stdout),
        (0, "held\nbusy\nfree\nlost\n"),
        "{}",
        output.stderr
    );
}

#[tokio::test]
async fn c08_a_program_in_python_holds_a_lock_and_learns_of_its_loss() {
    const PROGRAM: &str = r#"
import multiprocessing, time
with lock("a") as (token, lost):
    assert token > 0 and not lost.is_set()
    # A fork has all pipes of its parent, and outlives the hold.
    fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
    fork.start()
    print("held")
    try:
        with lock("a", "--no-wait"):
            print("both")
    except NotAcquired:
        print("busy")
with lock("a", "--no-wait"):
    print("free")
try:
    with lock("killed") as (token, lost):
        seen = subprocess.check_output(["leasehold", "inspect", "--json", "killed"])
        host, pid = json.loads(seen)["label"].split(":")
        subprocess.run(["kill", "-9", pid], check=True)
        assert lost.wait(60)
    print("no error")
except RuntimeError:
    pass
try:
    with lock("a", "--ttl", "6s") as (token, lost):
        subprocess.run(["leasehold", "evict", "--force", "a"], check=True, stdout=subprocess.DEVNULL)
        assert lost.wait(60)
except RuntimeError:
    print("lost")
"#;
    run("python3", helper("Python", "python"), PROGRAM).await;
}

#[tokio::test]
async fn c08_a_program_in_python_holds_locks_by_one_process() {
    const PROGRAM: &str = r#"
locks = Locks("--no-wait")
with locks.lock("a") as (token, lost), locks.lock("b", "c", shared=True):
    assert token > 0 and not lost.is_set()
    print("held")
    try:
        with locks.lock("a"):
            print("both")
    except NotAcquired:
        print("busy")
with locks.lock("a"):
    print("free")
try:
    with locks.lock("a", ttl_ms=6000) as (token, lost):
        subprocess.run(["leasehold", "evict", "--force", "a"], check=True, stdout=subprocess.DEVNULL)
        assert lost.wait(60)
except RuntimeError:
    print("lost")
import multiprocessing, time
fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
fork.start()
locks.close()
assert locks.holder.returncode == 143
"#;
    run("python3", helper("Several locks by one process", "python"), PROGRAM).await;
}

#[tokio::test]
async fn c08_a_program_in_javascript_holds_a_lock_and_learns_of_its_loss() {
    const PROGRAM: &str = r#"
const { execFileSync } = require("node:child_process");
(async () => {
  await withLock("a", [], async (token) => {
    console.log(token > 0 ? "held" : token);
    await withLock("a", ["--no-wait"], () => console.log("both")).catch(() => console.log("busy"));
  });
  await withLock("a", ["--no-wait"], () => console.log("free"));
  const aborted = async (signal) =>
    signal.aborted || new Promise((resolve) => signal.addEventListener("abort", resolve));
  await withLock("killed", [], async (token, signal) => {
    const seen = execFileSync("leasehold", ["inspect", "--json", "killed"]);
    execFileSync("kill", ["-9", JSON.parse(seen).label.split(":")[1]]);
    await aborted(signal);
  }).then(() => console.log("no error"), () => {});
  await withLock("a", ["--ttl", "6s"], async (token, signal) => {
    execFileSync("leasehold", ["evict", "--force", "a"]);
    await aborted(signal);
  }).catch(() => console.log("lost"));
})();
"#;
    run("node", helper("Node.js", "js"), PROGRAM).await;
}
