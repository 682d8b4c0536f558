#![no_main]
//! Runs the target that the environment variable `FUZZ_TARGET` names.

use fuzz::libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|bytes: &[u8]| fuzz::target().run(bytes));
fuzz_mutator!(|bytes: &mut [u8], size: usize, max_size: usize, seed: u32| {
    fuzz::mutated(bytes, size, max_size, seed)
});
