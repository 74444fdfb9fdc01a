//! Random input for the fuzz targets, which are the tests called `fuzz_…` of each package: text that looks like
//! valid input of a parser, and URLs with a secret.

use std::env;
use std::fmt::{Debug, Write};
use std::panic::Location;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::{Arbitrary, any};
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};

/// Number of inputs of the short form.
const INPUTS: u32 = 300;

/// Calls `test` with the same 300 inputs each time, or with random input for `LEASEHOLD_FUZZ_SECONDS`. The inputs that
/// once failed in the caller's file come first, and a new one is added to them.
///
/// # Panics
/// If `test` panics. The message has the smallest input that was found.
#[track_caller]
pub fn check<T: Arbitrary + Debug>(test: impl Fn(&T)) {
    let failed = failed_in(Location::caller().file());
    let config = || Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(failed))),
        max_default_size_range: 12,
        ..Config::with_cases(INPUTS)
    };
    let seconds = env::var("LEASEHOLD_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else {
        let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        return try_all(TestRunner::new_with_rng(config(), same), &test);
    };
    let (end, mut inputs) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < end {
        try_all(TestRunner::new(config()), &test);
        inputs += INPUTS;
    }
    println!("{inputs} inputs");
}

/// Returns the path of the inputs that once failed in a source file.
fn failed_in(source: &str) -> &'static str {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("failed");
    folder.join(source).with_extension("txt").to_string_lossy().into_owned().leak()
}

fn try_all<T: Arbitrary + Debug>(mut runner: TestRunner, test: impl Fn(&T)) {
    let tried = runner.run(&any::<T>(), |input| {
        test(&input);
        Ok(())
    });
    tried.unwrap_or_else(|found| panic!("{found}"));
}

/// Source of a text: a choice and a number for each part.
pub type Parts = Vec<(u8, u64)>;

/// Returns a text of up to four characters, of any kind.
pub fn any_text(number: u64) -> String {
    String::from_utf16_lossy(&[0, 16, 32, 48].map(|bits| (number >> bits) as u16))
}

/// Makes a text. Most parts are words of the format, some are numbers, and the rest is any text.
pub fn text(words: &[&str], parts: &Parts) -> String {
    let mut made = String::new();
    for (choice, number) in parts {
        match choice {
            0..176 => made += words[usize::from(*choice) % words.len()],
            // Small numbers are more often valid.
            176..200 => made += &(number % 16).to_string(),
            200..224 => made += &number.to_string(),
            _ => made += &any_text(*number),
        }
    }
    made
}

/// Start and end of the secret in a URL.
const SECRET: &str = "s3cr3t";

/// Words of URLs.
const OF_URLS: &[&str] = &[
    "a", "b.example", ":", "@", "/", "?", "#", "&", "=", ",", "%", "%2F", "%ff", "[", "]", "[::1]",
    "6379", "65536", "db", "protocol=resp3", "user", "pass=", "prefix=x", "0", ".", "..", "-",
    "locks", "sslmode", "lock_table=t", "//", "://", "\\", "'", "\"", "+", "\u{202e}",
];

/// Returns a URL with a secret, and its surroundings. The four sources are for the middle of the secret, the
/// hosts, the path and the parameters.
pub fn url(schemes: &[&str], choice: u8, [secret, hosts, path, parameters]: &[Parts; 4]) -> String {
    let scheme = schemes[usize::from(choice) % schemes.len()];
    let word = |parts| text(OF_URLS, parts);
    let mut url = format!("{scheme}://user:{SECRET}{}{SECRET}@{}", word(secret), word(hosts));
    if choice >= 64 {
        let _ = write!(url, "/{}", word(path));
    }
    if choice >= 128 {
        let _ = write!(url, "?{}", word(parameters));
    }
    url
}

/// Fails if a text shows a part of the secret of [`url`].
///
/// # Panics
/// If the text shows it.
#[track_caller]
pub fn assert_secret_is_kept(text: &str, url: &str) {
    assert!(!text.contains(SECRET), "C32: {text:?} shows the secret of {url:?}");
}
