//! Builds the packages of the command: a static file, an archive and a Debian package, with their checksums.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Done, Failure, command};
use crate::workspace::{cargo, root, target};

/// The command with all stores.
const BUILD: &str = "build --release --config profile.release.strip=true --package lock-cli --features etcd,postgres,zookeeper";

/// Places in which each shell looks for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/leasehold"),
    ("zsh", "usr/share/zsh/vendor-completions/_leasehold"),
    ("fish", "usr/share/fish/vendor_completions.d/leasehold.fish"),
];

/// Files of the workspace that are installed unchanged.
const DOCS: &[&str] = &[
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "packaging/kubernetes/cronjob.yaml",
    "packaging/kubernetes/deployment.yaml",
    "packaging/systemd/indexer.service",
    "packaging/systemd/nightly-report.service",
    "packaging/systemd/nightly-report.timer",
];

/// Builds everything below `target/dist`.
pub(crate) fn run() -> Done {
    let folder = target().join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let program = build(&folder)?;
    works_alone(&program, &folder)?;
    let tree = folder.join("tree");
    fill(&tree, &program)?;
    let name = format!("leasehold-{}-{ARCH}", env!("CARGO_PKG_VERSION"));
    let archive = format!("{name}.tar.gz");
    let mut tar = command("tar --sort=name --owner=0 --group=0 --numeric-owner -czf");
    step::run(tar.arg(folder.join(&archive)).arg("-C").arg(&tree).arg("usr"))?;
    let package = format!("{name}.deb");
    debian(&tree, &folder.join(&package))?;
    fs::remove_dir_all(tree)?;
    let sums =
        output(command("sha256sum leasehold").args([&archive, &package]).current_dir(&folder))?;
    print!("{sums}");
    Ok(fs::write(folder.join("SHA256SUMS"), sums)?)
}

/// Builds the command for this machine's architecture with musl, linked statically.
fn build(folder: &Path) -> Done<PathBuf> {
    let musl = format!("{ARCH}-unknown-linux-musl");
    step::run(command("rustup target add").arg(&musl).current_dir(root()))?;
    step::run(cargo(BUILD).arg("--target").arg(&musl))?;
    fs::create_dir_all(folder)?;
    let program = folder.join("leasehold");
    fs::copy(target().join(musl).join("release/leasehold"), &program)?;
    Ok(program)
}

/// Runs the command where no other file exists, as in an image from scratch.
fn works_alone(program: &Path, folder: &Path) -> Done {
    let empty = folder.join("empty");
    fs::create_dir_all(empty.join("proc"))?;
    fs::copy(program, empty.join("leasehold"))?;
    let mut alone = command("unshare --map-root-user --pid --fork --mount-proc");
    alone.arg(format!("--root={}", empty.display()));
    let run = "/leasehold --url file:/locks run a -- /leasehold --version";
    step::run(alone.args(run.split(' ')))?;
    Ok(fs::remove_dir_all(empty)?)
}

/// Makes the tree of installed files.
fn fill(tree: &Path, program: &Path) -> Done {
    write(&tree.join("usr/bin/leasehold"), &fs::read(program)?)?;
    step::run(command("chmod 755").arg(tree.join("usr/bin/leasehold")))?;
    for (shell, path) in COMPLETIONS {
        write(
            &tree.join(path),
            output(Command::new(program).args(["completions", shell]))?.as_bytes(),
        )?;
    }
    let man = tree.join("usr/share/man/man1");
    let page = output(Command::new(program).arg("man"))?;
    for subcommand in subcommands(&page) {
        let page = output(Command::new(program).args(["man", &subcommand]))?;
        write(&man.join(format!("leasehold-{subcommand}.1")), page.as_bytes())?;
    }
    write(&man.join("leasehold.1"), page.as_bytes())?;
    step::run(command("gzip -9nr").arg(&man))?;
    let docs = tree.join("usr/share/doc/leasehold");
    for path in DOCS {
        let path = root().join(path);
        write(&docs.join(path.file_name().unwrap_or_default()), &fs::read(&path)?)?;
    }
    let licence =
        "MIT or Apache-2.0, at your option: see LICENSE-MIT and LICENSE-APACHE in this folder.\n";
    write(&docs.join("copyright"), licence.as_bytes())
}

/// Returns the subcommands that a manual page refers to, as in `leasehold\-run(1)`.
fn subcommands(page: &str) -> Vec<String> {
    let words = page.lines().filter_map(|line| line.trim().strip_suffix("(1)"));
    words.filter_map(|word| word.strip_prefix("leasehold\\-")).map(str::to_owned).collect()
}

/// Packs the tree, and adds the package's control file.
fn debian(tree: &Path, package: &Path) -> Done {
    let architecture = output(&mut command("dpkg --print-architecture"))?;
    let control = fs::read_to_string(root().join("packaging/control"))?;
    let control = control.replace("VERSION", env!("CARGO_PKG_VERSION"));
    let control = control.replace("ARCHITECTURE", architecture.trim());
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    step::run(command("dpkg-deb --root-owner-group --build").arg(tree).arg(package))
}

fn write(path: &Path, bytes: &[u8]) -> Done {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    Ok(fs::write(path, bytes)?)
}

/// Returns the output of a command.
fn output(command: &mut Command) -> Done<String> {
    let output = command.output();
    let failed = |why: &str| Failure::new(format!("{command:?}: {why}"));
    let output = output.map_err(|error| failed(&error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(&String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subcommand_has_a_page() {
        let page =
            ".SH SUBCOMMANDS\n.TP\nleasehold\\-run(1)\nRun a command\n.TP\nleasehold\\-ps(1)\n";
        assert_eq!(subcommands(page), ["run", "ps"]);
    }

    #[test]
    fn what_is_installed_is_there() {
        for path in DOCS {
            assert!(root().join(path).is_file(), "{path}");
        }
    }
}
