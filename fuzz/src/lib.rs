//! Support for libFuzzer programs that run a target of `fuzz-targets`.

use fastrand::Rng;
use fuzz_targets::{mutate, target};

pub use libfuzzer_sys;

/// Defines the program of a target, which runs the target with structure-aware mutations.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::run($name, bytes));
        $crate::libfuzzer_sys::fuzz_mutator!(|bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::mutated($name, bytes, size, max_size, seed)
        });
    };
}

/// Runs a target.
pub fn run(name: &str, bytes: &[u8]) {
    (target(name).run)(bytes);
}

/// Mutates the first `size` bytes in place, and returns the new size. Alternates between libFuzzer's own mutations,
/// which use the comparisons of the program, and ours. Occasionally replaces the input with a mutated seed.
pub fn mutated(name: &str, bytes: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Rng::with_seed(u64::from(seed));
    if size > 1 && rng.bool() {
        return libfuzzer_sys::fuzzer_mutate(bytes, size, max_size);
    }
    let mutated = if size <= 1 || rng.u16(..) == 0 {
        let seeds = target(name).seeds();
        mutate(&seeds[rng.usize(0..seeds.len())].bytes, &mut rng)
    } else {
        mutate(&bytes[..size], &mut rng)
    };
    let size = mutated.len().min(max_size);
    bytes[..size].copy_from_slice(&mutated[..size]);
    size
}
