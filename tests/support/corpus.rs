//! Where the real traces and reference numbers are.

use std::path::{Path, PathBuf};

/// The corpus of real traces and reference numbers, or `None` with the reason printed.
///
/// # Panics
/// If `ADVISOR_CORPUS` is set and is no folder: a typo must not turn tests off.
#[expect(clippy::print_stdout, reason = "why tests are skipped is part of their result")]
pub(crate) fn corpus() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the one place where tests look it up")]
    let set = std::env::var("ADVISOR_CORPUS").ok();
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = set.as_ref().map_or(default, PathBuf::from);
    if path.join("traces").is_dir() {
        return Some(path);
    }
    assert!(set.is_none(), "ADVISOR_CORPUS={} holds no traces", path.display());
    println!("skipped: no corpus at {} (set ADVISOR_CORPUS)", path.display());
    None
}
