//! A small seeded random generator (`SplitMix64`): a seed gives the same bytes on every machine.

/// State of the generator.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    /// One independent stream per (seed, rank).
    pub(super) fn new(seed: u64, rank: u32) -> Self {
        let mut rng = Self(seed ^ (u64::from(rank) + 1).wrapping_mul(0xD1B5_4A32_D192_ED03));
        rng.next();
        rng
    }

    /// 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `ns` plus or minus up to `per_mille` thousandths. Uses integers only, because floats could round
    /// differently on other machines.
    pub(super) fn jitter(&mut self, ns: i64, per_mille: i64) -> i64 {
        let spread = (self.next() % (2 * per_mille as u64 + 1)) as i64 - per_mille;
        ns + ns * spread / 1000
    }
}
