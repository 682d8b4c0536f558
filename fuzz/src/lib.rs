//! Support for the libFuzzer program that runs a target of `fuzz-targets`.

use std::sync::LazyLock;

use fastrand::Rng;
use fuzz_targets::{Target, mutate};

pub use libfuzzer_sys;

/// The target that the environment variable `FUZZ_TARGET` names.
///
/// # Panics
/// If the variable names no target.
pub fn target() -> &'static Target {
    static TARGET: LazyLock<&Target> = LazyLock::new(|| {
        let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
        fuzz_targets::target(&name)
    });
    &TARGET
}

/// Mutates the first `size` bytes in place, and returns the new size. Alternates between libFuzzer's own mutations,
/// which use the comparisons of the program, and ours. Occasionally replaces the input with a mutated seed.
pub fn mutated(bytes: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut rng = Rng::with_seed(u64::from(seed));
    if size > 1 && rng.bool() {
        return libfuzzer_sys::fuzzer_mutate(bytes, size, max_size);
    }
    let mutated = if size <= 1 || rng.u16(..) == 0 {
        let seeds = target().seeds();
        mutate(&seeds[rng.usize(0..seeds.len())].bytes, &mut rng)
    } else {
        mutate(&bytes[..size], &mut rng)
    };
    let size = mutated.len().min(max_size);
    bytes[..size].copy_from_slice(&mutated[..size]);
    size
}
