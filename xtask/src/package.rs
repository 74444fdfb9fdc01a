//! Packs the packages as the registry would serve them, and builds a service from them alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Done, Failure};
use crate::workspace::{cargo, root, target};

/// Source of the service.
const SERVICE: &str = include_str!("package/service.rs");

/// Files of every package.
const IN_EACH: &[&str] = &["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs all published packages, then builds and runs a service from the unpacked packages, offline. The service depends on
/// all of them, with all features of the library.
pub(crate) fn run() -> Done {
    let folder = target().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    step::run(&mut cargo("publish --workspace --dry-run --allow-dirty --no-verify"))?;
    let packages = unpacked(&folder)?;
    complete(&packages)?;
    let service = folder.join("service");
    fs::create_dir_all(service.join("src"))?;
    fs::write(service.join("src/main.rs"), SERVICE)?;
    fs::write(service.join("Cargo.toml"), manifest(&packages))?;
    // The tested versions; cargo drops those that the service does not need.
    fs::copy(root().join("Cargo.lock"), service.join("Cargo.lock"))?;
    let mut run = cargo("run --offline");
    step::run(run.current_dir(&service).env("CARGO_TARGET_DIR", target()))
}

/// Unpacks the packages, and returns their folders.
fn unpacked(folder: &Path) -> Done<Vec<PathBuf>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder.join("tmp-registry"))? {
        let packed = entry?.path();
        if packed.extension().is_some_and(|end| end == "crate") {
            // With the present time, since cargo keeps what it built of files that are not newer.
            let mut unpack = Command::new("tar");
            unpack.args(["--touch", "-xzf"]).arg(&packed).arg("-C").arg(folder);
            step::run(&mut unpack)?;
            packages.push(folder.join(packed.file_stem().unwrap_or_default()));
        }
    }
    match packages.is_empty() {
        true => Err(Failure::new("cargo left no packages")),
        false => Ok(packages),
    }
}

fn complete(packages: &[PathBuf]) -> Done {
    let files = packages.iter().flat_map(|package| IN_EACH.iter().map(|file| package.join(file)));
    let missing = files.filter(|file| !file.is_file());
    Failure::all_of(missing.map(|file| Err(Failure::new(format!("no {}", file.display())))))
}

/// Replaces each package of the workspace by the unpacked one, so that nothing comes from the workspace.
fn manifest(packages: &[PathBuf]) -> String {
    let mut text = format!(
        "[package]\nname = \"package-service\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         leasehold = {{ version = \"{version}\", features = [\"full\", \"testing\"] }}\n\
         lock-cli = \"{version}\"\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[patch.crates-io]\n",
        version = env!("CARGO_PKG_VERSION")
    );
    for package in packages {
        let folder = package.file_name().unwrap_or_default().display().to_string();
        let name = folder.rsplit_once('-').map_or("", |(name, _)| name);
        text += &format!("{name} = {{ path = \"../{folder}\" }}\n");
    }
    text
}
