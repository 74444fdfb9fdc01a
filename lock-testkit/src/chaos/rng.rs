//! Random choices that a seed repeats.

use std::time::Duration;

/// SplitMix64: every seed is good.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    /// Returns a separate sequence of choices for each `part` of a seed.
    pub(super) fn new(seed: u64, part: u64) -> Self {
        let mut rng = Self(seed);
        Self(rng.next() ^ part.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// A span from `least` to `most`.
    pub(super) fn span(&mut self, least: Duration, most: Duration) -> Duration {
        let range = most.saturating_sub(least).as_millis() as u64;
        least + Duration::from_millis(self.below(range + 1))
    }
}
