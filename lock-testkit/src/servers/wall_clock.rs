//! Wall clocks of servers that tests set.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Source of a library that is loaded into the server: it adds the clock's lead.
const LIBRARY: &str = include_str!("wall_clock.c");

/// The wall clock of one server. The server's monotonic clock, its timers and its delays are real.
#[derive(Clone, Debug)]
pub struct WallClock {
    file: PathBuf,
}

impl WallClock {
    /// Makes a clock for the server with this folder. On systems other than Linux it makes none, and prints that.
    pub(super) fn make_in(folder: &Path) {
        if !cfg!(target_os = "linux") {
            return println!("no step of a server's wall clock is tried on this system");
        }
        let source = folder.join("wall-clock.c");
        fs::write(&source, LIBRARY).expect("the server's folder can be written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(library(folder)).arg(&source);
        let made = compiler.output().expect("there is a C compiler, as Rust links by it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { file: file(folder) }.write([0, 0]);
    }

    /// Returns the clock that was made in the folder.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let file = file(folder);
        file.exists().then_some(Self { file })
    }

    /// Sets the clock back.
    ///
    /// # Panics
    /// If its server has gone.
    pub fn set_back(&self, by: Duration) {
        let [ahead, furthest] = self.read();
        self.write([ahead - by.as_nanos() as i64, furthest]);
    }

    /// Sets the clock forward by more than all steps back since it was last set forward: by `more`.
    ///
    /// # Panics
    /// If its server has gone.
    pub fn set_forward(&self, more: Duration) {
        let [_, furthest] = self.read();
        self.write([furthest + more.as_nanos() as i64; 2]);
    }

    /// Returns the nanoseconds by which the clock is ahead of the machine's, and the most by which it has been.
    fn read(&self) -> [i64; 2] {
        let bytes = fs::read(&self.file).expect("the clock's file can be read");
        let mut numbers = bytes.chunks_exact(8).map(|number| number.try_into().expect("8 bytes"));
        [(); 2].map(|()| i64::from_ne_bytes(numbers.next().expect("two numbers")))
    }

    fn write(&self, numbers: [i64; 2]) {
        let bytes = numbers.map(i64::to_ne_bytes).concat();
        // The server has mapped the file, so it stays the same one, and is never empty.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.file);
        let written = file.and_then(|mut file| file.write_all(&bytes));
        written.expect("the server's folder can be written");
    }
}

/// Returns the words before a program's own by which it runs with the clock of its folder: none without a clock.
pub(super) fn words(folder: &Path) -> Vec<String> {
    let Some(clock) = WallClock::of(folder) else { return Vec::new() };
    let preload = format!("LD_PRELOAD={}", library(folder).display());
    let file = format!("LEASEHOLD_WALL_CLOCK={}", clock.file.display());
    ["env".to_owned(), preload, file].into()
}

fn file(folder: &Path) -> PathBuf {
    folder.join("wall-clock")
}

fn library(folder: &Path) -> PathBuf {
    folder.join("wall-clock.so")
}
