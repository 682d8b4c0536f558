//! Inputs from which mutations start.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::Target;

/// An input that a target accepts.
#[derive(Debug, Clone)]
pub struct Seed {
    /// Name of the file, or of the file in an export.
    pub name: String,
    /// Content, decompressed.
    pub bytes: Vec<u8>,
}

impl Target {
    /// Returns the seeds: files in `fuzz/seeds`, recorded files in the repository, and generated seeds.
    ///
    /// # Panics
    /// If there are no seeds, or one cannot be read.
    pub fn seeds(&self) -> Vec<Seed> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files: Vec<PathBuf> = self.recorded.iter().map(|path| root.join(path)).collect();
        if let Ok(folder) = root.join("fuzz/seeds").join(self.name).read_dir() {
            files.extend(folder.map(|entry| entry.expect("an entry").path()));
        }
        files.sort();
        let mut seeds: Vec<Seed> = files.iter().map(|path| read(path)).collect();
        seeds.extend((self.made)());
        assert!(!seeds.is_empty(), "{} has no seeds", self.name);
        seeds
    }
}

fn read(path: &Path) -> Seed {
    let mut bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut text).expect("a whole gzip file");
        bytes = text;
    }
    Seed { name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes }
}
