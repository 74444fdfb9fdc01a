//! Proves that named tests notice faults. Applies each patch of `mutants/` to a copy of the workspace, and
//! demands that its test fails there.
//!
//! Before that, every named test must run and pass in the copy: a test that always fails would otherwise look
//! like one that notices the fault, and so would a name without a test. `cargo mutants` makes the faults that
//! follow a pattern; a patch is for other faults.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::step::{self, Done, Failure, command};
use crate::workspace::{root, target};

/// Line of a patch that names its test, in the arguments of `cargo test`.
const TEST: &str = "Test: ";

/// A test takes seconds, but a mutant may make it wait for ever. `timeout` also ends the processes that the test
/// started.
const LIMITED: &str = "timeout --kill-after=5 120 cargo test";

struct Mutant {
    patch: PathBuf,
    test: String,
}

/// Tries the mutants whose file name contains one of `names`; all if `names` is empty.
pub(crate) fn run(names: &[String]) -> Done {
    let mutants = all()?.into_iter().filter(|mutant| mutant.is_one_of(names)).collect::<Vec<_>>();
    if mutants.is_empty() {
        return Err(Failure::new("no patch in mutants/ is called so"));
    }
    report(stale(&mutants)?)?;
    let tree = copy()?;
    let tests: BTreeSet<_> = mutants.iter().map(|mutant| mutant.test.as_str()).collect();
    let controls = tests.into_iter().map(|test| control(&tree, test));
    let trials = mutants.iter().map(|mutant| judge(&tree, mutant));
    Failure::all_of(controls.chain(trials))?;
    println!("all {} are killed", mutants.len());
    Ok(())
}

/// Returns the patches that do not apply any more, or name no test, one sentence each.
pub(crate) fn problems() -> Done<Vec<String>> {
    stale(&all()?)
}

fn all() -> Done<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for entry in fs::read_dir(root().join("mutants"))? {
        let patch = entry?.path();
        let text = fs::read_to_string(&patch)?;
        let test = text.lines().find_map(|line| line.strip_prefix(TEST)).unwrap_or_default();
        mutants.push(Mutant { patch, test: test.to_owned() });
    }
    mutants.sort_by(|one, other| one.patch.cmp(&other.patch));
    Ok(mutants)
}

fn stale(mutants: &[Mutant]) -> Done<Vec<String>> {
    let mut problems = Vec::new();
    for mutant in mutants {
        let fits = mutant.git_apply("--check").current_dir(root()).output()?;
        if mutant.test.is_empty() {
            problems.push(format!("mutants/{}: no line `{TEST}…`", mutant.name()));
        }
        if !fits.status.success() {
            let said = String::from_utf8_lossy(&fits.stderr);
            problems.push(format!("mutants/{} does not fit the code: {said}", mutant.name()));
        }
    }
    Ok(problems)
}

impl Mutant {
    fn name(&self) -> String {
        self.patch.file_name().unwrap_or_default().display().to_string()
    }

    fn is_one_of(&self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| self.name().contains(name))
    }

    fn git_apply(&self, option: &str) -> std::process::Command {
        let mut apply = command(&format!("git apply {option}"));
        apply.arg(&self.patch);
        apply
    }
}

/// Makes a git work tree of the workspace with its uncommitted changes; a new file counts once git knows it.
fn copy() -> Done<PathBuf> {
    let tree = target().join("mutants/tree");
    let changed = command("git stash create").current_dir(root()).output()?.stdout;
    let changed = String::from_utf8_lossy(&changed);
    let commit = if changed.trim().is_empty() { "HEAD" } else { changed.trim() };
    if !tree.join(".git").is_file() {
        step::run(command("git worktree prune").current_dir(root()))?;
        step::run(command("git worktree add --quiet --detach").arg(&tree).current_dir(root()))?;
    }
    let commit = command(&format!("git rev-parse {commit}")).current_dir(root()).output()?.stdout;
    let commit = String::from_utf8_lossy(&commit);
    step::run(
        command("git checkout --quiet --force --detach").arg(commit.trim()).current_dir(&tree),
    )?;
    Ok(tree)
}

/// Demands that a test exists, and passes on the unchanged code.
fn control(tree: &Path, test: &str) -> Done {
    println!("+ cargo test {test} (unmutated)");
    let output = cargo_test(tree, test)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let counts = said.lines().filter_map(|line| line.strip_prefix("running "));
    let ran = counts.into_iter().any(|count| !count.starts_with("0 "));
    match output.status.success() && ran {
        true => Ok(()),
        false => {
            Err(failure(&format!("`{test}` fails without any mutant, or fits no test"), &output))
        }
    }
}

/// Breaks the code, runs the mutant's test, restores the code, and demands that the test failed.
fn judge(tree: &Path, mutant: &Mutant) -> Done {
    step::run(mutant.git_apply("--quiet").current_dir(tree))?;
    let output = cargo_test(tree, &mutant.test);
    step::run(command("git checkout --quiet --force .").current_dir(tree))?;
    let verdict = match output.as_ref().map(|output| output.status.code()) {
        Ok(Some(0)) => "SURVIVED",
        Ok(Some(124 | 137)) => "timed out",
        Ok(_) => "killed",
        Err(_) => "does not compile",
    };
    println!("{verdict}  {}  {}", mutant.name(), mutant.test);
    match output?.status.success() {
        true => Err(Failure::new(format!("{} survived", mutant.name()))),
        false => Ok(()),
    }
}

/// Compiles and runs a test. A compile error is an error: it must not count as a noticed mutant.
fn cargo_test(tree: &Path, test: &str) -> Done<Output> {
    let compiled = cargo(tree, &format!("cargo test --no-run {test}"))?;
    match compiled.status.success() {
        true => cargo(tree, &format!("{LIMITED} {test}")),
        false => Err(failure(&format!("`{test}` does not compile"), &compiled)),
    }
}

fn cargo(tree: &Path, line: &str) -> Done<Output> {
    let build = target().join("mutants/build");
    Ok(command(line).current_dir(tree).env("CARGO_TARGET_DIR", build).output()?)
}

fn failure(why: &str, output: &Output) -> Failure {
    let said = [&output.stdout[..], &output.stderr].concat();
    Failure::new(format!("{why}:\n{}", String::from_utf8_lossy(&said)))
}

fn report(problems: Vec<String>) -> Done {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(problems.join("\n"))),
    }
}
