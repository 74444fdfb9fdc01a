//! Refuses directories and files that other users may change, or that another machine may reach.

use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use lock_core::backend::Record;
use lock_core::{Health, Lease, Occurrence};

use super::*;

/// A user id that nobody has.
const SOMEBODY: u32 = 54321;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

fn give_away(path: &Path) {
    chown(path, Some(SOMEBODY), None)
        .expect("NOT TESTED: this test gives a file away, as root alone may");
}

/// Returns the refusal to open the directory.
fn refusal(path: &Path) -> String {
    let error = FileBackend::open(path).expect_err("refused").to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    error
}

#[test]
fn s3_a_file_system_that_is_not_known_to_be_local_is_refused() {
    // A file system of the kernel, present on every machine that runs these tests.
    let refused = refusal(Path::new("/sys/kernel"));
    assert!(refused.contains("0x62656572") && refused.contains("?filesystem=local"), "{refused}");
}

#[tokio::test]
async fn s3_a_directory_that_others_may_write_is_refused() {
    let home = tempdir().expect("a directory");
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        set_mode(home.path(), mode);
        let refused = refusal(home.path());
        assert!(
            refused.contains(&format!("{mode:o}")) && refused.contains("chmod go-w"),
            "{refused}"
        );
    }
    for mode in [0o700, 0o755] {
        set_mode(home.path(), mode);
        let lock = FileBackend::open(home.path()).expect("opens");
        granted(&lock, &claim(&format!("{mode}"))).await;
        set_mode(home.path(), 0o777);
        let refused = lock.acquire(&claim("a"), None).await.expect_err("refused");
        assert!(!refused.is_transient() && refused.outcome() == Outcome::NotApplied, "{refused}");
        let doctor = lock.doctor("").await.expect("findings");
        assert!(
            doctor.iter().any(|finding| finding.seen.contains("others may write it")),
            "{doctor:?}"
        );
    }
}

/// C31: the sockets of waiters are in a folder of their own.
#[tokio::test]
async fn c31_the_doctor_names_the_cause_why_nobody_can_wait() {
    let home = tempdir().expect("a directory");
    let lock = FileBackend::open(home.path()).expect("opens");
    fs::write(home.path().join("waiters"), "no folder").expect("a file");
    let findings = lock.doctor("").await.expect("findings");
    let writes = findings.iter().find(|finding| finding.check == "writes").expect("it tries");
    assert_eq!(writes.health, Health::Risk, "{writes}");
    assert!(writes.seen.contains("waiters"), "{writes}");
}

#[test]
fn s3_a_directory_of_somebody_else_is_refused() {
    let home = tempdir().expect("a directory");
    give_away(home.path());
    let refused = refusal(home.path());
    assert!(refused.contains(&format!("user {SOMEBODY}")), "{refused}");
}

/// As in `/tmp`: the owner of the directory above could put another directory of ours in the place of this one, and two
/// clients of ours would hold one lock.
#[test]
fn s3_a_directory_below_what_a_stranger_made_in_public_is_refused() {
    let home = tempdir().expect("a directory");
    let (shop, elsewhere) = (home.path().join("shop"), home.path().join("elsewhere"));
    for made in [&shop, &elsewhere] {
        fs::create_dir(made).expect("made");
    }
    give_away(&shop);
    let link = home.path().join("link");
    symlink(&elsewhere, &link).expect("linked");
    std::os::unix::fs::lchown(&link, Some(SOMEBODY), None).expect("given away");
    for (mode, is_public) in [(0o755, false), (0o1777, true), (0o777, true)] {
        set_mode(home.path(), mode);
        for made in [&shop, &link] {
            for locks in ["locks", "deep/locks"] {
                let opened = FileBackend::open(made.join(locks)).map(drop);
                assert_eq!(opened.is_err(), is_public, "{mode:o} {}: {opened:?}", made.display());
                let refused = opened.err().map_or_else(String::new, |error| error.to_string());
                assert_eq!(refused.contains("user 54321 has made"), is_public, "{refused}");
            }
        }
        FileBackend::open(elsewhere.join("locks")).expect("opens what is ours");
    }
}

#[test]
fn a_directory_that_is_a_symbolic_link_is_refused() {
    let home = tempdir().expect("a directory");
    let (locks, link) = (home.path().join("locks"), home.path().join("link"));
    FileBackend::open(&locks).expect("opens");
    symlink(&locks, &link).expect("linked");
    assert!(refusal(&link).contains("symbolic link"));
    let refused = FileBackend::open(home.path().join("link/")).expect_err("refused");
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
}

/// Puts a file at a path.
type Plant<'a> = &'a dyn Fn(&Path);

/// Files that another user created before the directory was ours.
#[tokio::test]
async fn a_planted_file_is_refused_and_what_it_points_at_is_untouched() {
    let elsewhere = tempdir().expect("a directory");
    let victim = elsewhere.path().join("victim");
    fs::write(&victim, "").expect("written");
    let plants: [(Plant<'_>, &str); 4] = [
        (&|path| symlink(&victim, path).expect("linked"), "symbolic link"),
        (
            &|path| {
                fs::write(path, "").expect("written");
                give_away(path);
            },
            "user 54321",
        ),
        (
            &|path| {
                fs::write(path, "").expect("written");
                set_mode(path, 0o666);
            },
            "others may write",
        ),
        (
            &|path| {
                let made = std::process::Command::new("mkfifo").arg(path).status().expect("runs");
                assert!(made.success());
            },
            "no file",
        ),
    ];
    for (plant, why) in plants {
        let (home, lock) = home();
        granted(&lock, &claim("precious")).await;
        let path = only_file(&home);
        fs::remove_file(&path).expect("removed");
        plant(&path);
        let refused = lock.acquire(&claim("precious"), None).await.expect_err("refused");
        let text = refused.to_string();
        assert!(text.contains("precious") && text.contains(why), "{text}");
        assert!(!refused.is_transient() && refused.outcome() == Outcome::NotApplied, "{text}");
    }
    assert_eq!(fs::read(victim).expect("readable"), b"");
}

#[tokio::test]
async fn a_folder_that_is_a_symbolic_link_is_not_followed() {
    let (home, elsewhere) = (tempdir().expect("a directory"), tempdir().expect("a directory"));
    for folder in ["waiters", "runs"] {
        symlink(elsewhere.path(), home.path().join(folder)).expect("linked");
    }
    let lock = FileBackend::open(home.path()).expect("opens");
    let held = claim("a");
    let token = granted(&lock, &held).await.token;
    let text = format!("lease1:{}:{token}:1000:a", held.owner.expose());
    let lease = Lease::import(&text).expect("a lease");
    let occurrence = Occurrence::new("monday").expect("an occurrence");
    let minute = Duration::from_secs(60);
    let record = Record::new(&lease, occurrence, minute).expect("a good span");
    let refused = lock.record(&record).await.expect_err("refused").to_string();
    assert!(refused.contains("runs"), "{refused}");
    lock.directory.sockets().bind().expect_err("refused");
    assert_eq!(fs::read_dir(elsewhere.path()).expect("readable").count(), 0);
}

#[tokio::test]
async fn the_record_of_a_run_is_private() {
    let (home, lock) = home();
    let held = claim("a");
    let token = granted(&lock, &held).await.token;
    let text = format!("lease1:{}:{token}:1000:a", held.owner.expose());
    let lease = Lease::import(&text).expect("a lease");
    let occurrence = Occurrence::new("monday").expect("an occurrence");
    let record = Record::new(&lease, occurrence, TTL).expect("a good span");
    lock.record(&record).await.expect("recorded");
    let mut folder = home.path().join("runs");
    while folder.is_dir() {
        assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o700);
        folder =
            fs::read_dir(&folder).expect("readable").next().expect("a file").expect("one").path();
    }
    assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o600);
}
