//! The rank of a trace from its first bytes.

use std::io;
use std::path::Path;

use memchr::memmem;

use crate::input::decompress;
use crate::input::limits::HEAD_BYTES;
use crate::input::storage::File;
use crate::run::rank_from_name::rank_from_file_name;

/// The rank in the metadata of a local trace, in front of its events, else the rank in its file name. Reads the first bytes
/// of the file.
///
/// # Errors
/// If the file cannot be read.
pub fn stated_rank(file: &Path) -> io::Result<Option<i32>> {
    let head = File::Local(file.to_owned()).head(HEAD_BYTES)?;
    let head = decompress::prefix(head, HEAD_BYTES).unwrap_or_default();
    let value_of = |text: &[u8], key: &[u8]| -> Option<usize> {
        let at = memmem::find(text, key)? + key.len();
        Some(at + memchr::memchr(b':', &text[at..])? + 1)
    };
    let in_head = || {
        let info = &head[value_of(&head, b"\"distributedInfo\"")?..];
        let text = info[value_of(info, b"\"rank\"")?..].trim_ascii_start();
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
    };
    Ok(in_head().or_else(|| rank_from_file_name(&file.to_string_lossy())))
}
