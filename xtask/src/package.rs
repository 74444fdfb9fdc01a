//! Packs the packages as the registry would serve them, and builds a service from them alone.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::step::{self, Done, Failure};
use crate::workspace::{cargo, root, target};

/// Source of the service.
const SERVICE: &str = include_str!("package/service.rs");

/// Files of every package.
const IN_EACH: &[&str] = &["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs and verifies all published packages, then builds and runs a service from the unpacked packages, offline.
pub(crate) fn run() -> Done {
    let folder = target().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    forget_earlier_packages()?;
    step::run(&mut cargo("publish --workspace --dry-run --allow-dirty"))?;
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

/// Removes cargo's copies of packages that were packed before. Cargo takes a version of a package as final, and
/// would build the service and the later packages from the earlier sources.
fn forget_earlier_packages() -> Done {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let registries = home.map(|home| home.join("registry")).into_iter();
    // The registry of a dry run has no host, so its folder's name begins with a dash.
    let temporary =
        registries.flat_map(|registry| ["cache", "src"].map(|part| registry.join(part)));
    let temporary = temporary.map(|folder| (folder, "-"));
    let built = ["lock-", "leasehold-"].map(|start| (target().join("debug/.fingerprint"), start));
    for (folder, start) in temporary.chain(built) {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(start) {
                fs::remove_dir_all(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Returns the folders in which cargo verified the packages.
fn unpacked(folder: &Path) -> Done<Vec<PathBuf>> {
    let folders = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let folders = folders.collect::<std::io::Result<Vec<_>>>()?;
    let packages = folders.into_iter().filter(|folder| folder.join("Cargo.toml.orig").is_file());
    Ok(packages.collect())
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
         leasehold = {{ version = \"{}\", features = [\"full\", \"testing\"] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n\n[patch.crates-io]\n",
        env!("CARGO_PKG_VERSION")
    );
    for package in packages {
        let folder = package.file_name().unwrap_or_default().display().to_string();
        let name = folder.rsplit_once('-').map_or("", |(name, _)| name);
        text += &format!("{name} = {{ path = \"../{folder}\" }}\n");
    }
    text
}
