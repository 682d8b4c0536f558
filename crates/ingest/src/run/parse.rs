//! Reads one file of a run.

use super::discover::InputFile;
use crate::formats::importer::{Content, FileError, FileInput};
use crate::input::decompress::Limit;
use crate::options::Progress;
use crate::timeline::outline::Detail;

/// Reads a file in the format that its first bytes suggested.
pub(crate) fn parse_file(
    file: &InputFile,
    limit: Limit,
    progress: &dyn Progress,
    detail: Detail,
) -> Result<Content, FileError> {
    let advance = |bytes| progress.advance(bytes);
    let input = FileInput::new(&file.file, &file.stored, limit, &advance, detail);
    let content = file.importer.read(&input);
    progress.file_done(&file.file);
    match input.failure() {
        Some(error) => Err(error.into()),
        None => content,
    }
}
