//! Random draws of the engine, which a simulation repeats from a seed.

use std::cell::Cell;
use std::ops::Range;

use rand::TryRng;
use rand::rngs::SysRng;

thread_local! {
    /// State of this thread's draws; `None` if they come from the operating system.
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes every later draw on this thread follow from `seed`. For simulations: owner ids can then be predicted.
pub fn seed_this_thread(seed: u64) {
    SEEDED.set(Some(seed));
}

/// Returns unpredictable bits for an owner id.
pub(super) fn owner_bits() -> u128 {
    if let Some(high) = seeded() {
        return u128::from(high) << 64 | u128::from(seeded().unwrap_or_default());
    }
    let mut bits = [0; 16];
    // A generator of our own would draw the same bits for parent and child after a fork, and the two would count as
    // one owner.
    if SysRng.try_fill_bytes(&mut bits).is_err() {
        bits = rand::random();
    }
    u128::from_be_bytes(bits)
}

/// Returns a random number of `range`.
pub(crate) fn within(range: Range<f64>) -> f64 {
    match seeded() {
        // The 53 bits of a float's fraction.
        Some(bits) => {
            range.start + (range.end - range.start) * (bits >> 11) as f64 / 2_f64.powi(53)
        }
        None => rand::random_range(range),
    }
}

/// The next draw of a seeded thread: SplitMix64.
fn seeded() -> Option<u64> {
    let state = SEEDED.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    SEEDED.set(Some(state));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(mixed ^ (mixed >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_draws_follow_from_the_seed_of_their_thread_alone() {
        let draws = || (owner_bits(), within(0.5..1.0));
        let seeded = |seed| {
            let draws = move || (seed_this_thread(seed), [draws(), draws()]).1;
            std::thread::spawn(draws).join().expect("no panic")
        };
        assert_eq!(seeded(7), seeded(7));
        assert_ne!(seeded(7), seeded(8));
        assert_ne!(draws(), draws(), "this thread has no seed");
        assert!(seeded(9).iter().all(|(_, part)| (0.5..1.0).contains(part)));
    }
}
