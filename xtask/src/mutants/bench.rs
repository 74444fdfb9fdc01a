//! Where tests run against the copy.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::copy;
use super::mutant::Mutant;
use crate::step::{Done, Failure, command};
use crate::workspace;

/// A named test takes seconds. A mutant may make it wait for ever.
const TEST_LIMIT: Duration = Duration::from_secs(120);

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Killed,
    /// The test did not end, which no test does by itself.
    KilledByTimeout,
    Survived,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Killed => "killed",
            Self::KilledByTimeout => "killed (timed out)",
            Self::Survived => "SURVIVED",
        })
    }
}

/// A copy of the workspace, a place to build it, and a file for what the commands say.
pub(super) struct Bench {
    tree: PathBuf,
    build: PathBuf,
    log: PathBuf,
}

impl Bench {
    pub(super) fn set_up() -> Done<Self> {
        let home = workspace::target().join("mutants");
        let bench =
            Self { tree: home.join("tree"), build: home.join("build"), log: home.join("log") };
        fs::create_dir_all(&bench.tree)?;
        copy::refresh(workspace::root(), &bench.tree)?;
        Ok(bench)
    }

    /// Demands that each named test passes on the code as it is, and that there is such a test.
    pub(super) fn control(&self, mutants: &[&Mutant]) -> Done {
        let tests: BTreeSet<_> = mutants.iter().map(|mutant| mutant.test).collect();
        for test in tests {
            println!("+ cargo test {test} (unmutated)");
            self.compile(test)?;
            match self.run(test)? {
                Some(status) if status.success() && ran_a_test(&self.said()) => {}
                Some(status) if status.success() => {
                    return Err(self.failure(&format!("no test fits `{test}`")));
                }
                _ => return Err(self.failure(&format!("`{test}` fails without any mutant"))),
            }
        }
        Ok(())
    }

    /// Breaks the code, runs the mutant's test, and puts the code right again.
    pub(super) fn judge(&self, mutant: &Mutant) -> Done<Verdict> {
        let file = self.tree.join(mutant.file);
        let original = fs::read(&file)?;
        copy::write(&file, mutant.apply_in(&self.tree)?.as_bytes())?;
        let verdict = self.verdict(mutant);
        copy::write(&file, &original)?;
        verdict
    }

    fn verdict(&self, mutant: &Mutant) -> Done<Verdict> {
        // First, because a mutant that does not compile must not count as noticed.
        self.compile(mutant.test)
            .map_err(|_| self.failure(&format!("mutant \"{}\" does not compile", mutant.name)))?;
        Ok(match self.run(mutant.test)? {
            Some(status) if status.success() => Verdict::Survived,
            Some(_) => Verdict::Killed,
            None => Verdict::KilledByTimeout,
        })
    }

    fn compile(&self, test: &str) -> Done {
        match self.cargo(&format!("test --no-run {test}"))?.status()?.success() {
            true => Ok(()),
            false => Err(self.failure(&format!("`{test}` does not compile"))),
        }
    }

    /// Runs a test; `None` if it did not end in time.
    fn run(&self, test: &str) -> Done<Option<ExitStatus>> {
        // A group of its own, so that the test is killed along with cargo.
        let mut child = self.cargo(&format!("test {test}"))?.process_group(0).spawn()?;
        let deadline = Instant::now() + TEST_LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(20));
        }
        kill_group(&mut child);
        Ok(None)
    }

    fn cargo(&self, line: &str) -> Done<Command> {
        let log = File::create(&self.log)?;
        let mut cargo = command(&format!("cargo {line}"));
        cargo
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.build)
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(cargo)
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::new(format!("{why}:\n{}", self.said()))
    }
}

fn kill_group(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Whether the test harness ran any test at all.
fn ran_a_test(said: &str) -> bool {
    let counts = said.lines().filter_map(|line| line.strip_prefix("running "));
    counts.into_iter().any(|count| !count.starts_with("0 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_tests_is_noticed() {
        assert!(ran_a_test("running 0 tests\n\nrunning 1 test\n"));
        assert!(!ran_a_test("running 0 tests\n"));
    }
}
