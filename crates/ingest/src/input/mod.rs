//! Access to input: addresses, files and folders (local or in an object store), and decompression.

pub(crate) mod decompress;
pub(crate) mod limits;
pub(crate) mod location;
pub(crate) mod pattern;
pub(crate) mod raw_files;
#[cfg(feature = "cloud")]
pub(crate) mod remote;
mod secrets;
mod stdin;
pub(crate) mod storage;
pub(crate) mod text_reader;
