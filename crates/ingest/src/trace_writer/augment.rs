//! Copies trace files and adds events to them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use trace_model::Warning;

use super::event_writer::EventWriter;
use super::source::refuse_sources;
use super::splice::{self, Failure};
use crate::error::Error;
use crate::error::Unreadable;
use crate::input::decompress::{self, Limit};
use crate::input::location::Location;
use crate::options::Progress;
use crate::output::OutputFile;
use crate::run::reach::RunReach;

/// Compression of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// As the source.
    #[default]
    Same,
    /// gzip; the name ends in `.gz`.
    Gzip,
    /// Plain JSON; the name does not end in `.gz`.
    Plain,
}

/// A copy to make.
#[derive(Debug, Clone)]
pub struct Copy<'a> {
    /// Location of the run.
    pub run: &'a Location,
    /// The files that are read as part of the run: a copy is never one of them.
    pub reach: &'a RunReach,
    /// The file of the run to copy.
    pub source: &'a trace_model::Source,
    /// Folder to write to, under the name that the source has in the run.
    pub folder: &'a Path,
    /// Compression of the copy.
    pub packing: Packing,
    /// Overwrite an existing file.
    pub overwrite: bool,
}

/// Copies a trace in bounded memory, with the events that `insert` adds at the end. All other bytes of the text are
/// unchanged, except parts that cannot be read, which cause warnings. Returns the path of the copy. `progress` hears of
/// the text and the end of the file.
///
/// # Errors
/// If the source has changed since it was read, or the copy would be part of the run or cannot be written; a copy is
/// complete or does not exist.
pub fn copy_with(
    copy: &Copy<'_>,
    progress: &dyn Progress,
    insert: impl FnOnce(&mut EventWriter<'_>) -> io::Result<()>,
) -> Result<(PathBuf, Vec<Warning>), Error> {
    let from = copy.run.file(&copy.source.file)?;
    let io_error = |e| Error::read(format!("{}: {}", copy.run, copy.source.file), e);
    let packed = match copy.packing {
        Packing::Same => decompress::is_gzip(&from).map_err(io_error)?,
        Packing::Gzip => true,
        Packing::Plain => false,
    };
    let to = copy.folder.join(file_name(&copy.source.file, copy.packing));
    refuse_sources(std::slice::from_ref(&from), &to)?;
    copy.reach.refuse_trace(&to)?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::write(folder, e))?;
    }
    let mut file = OutputFile::create(&to, copy.overwrite)?;
    // The limit is the size that was read: a longer file has changed.
    let limit = Limit { max_json_bytes: copy.source.json_bytes };
    let stream = decompress::stream(&from, limit).map_err(io_error)?;
    let failure = stream.failure();
    let shift_ns = copy.source.shift_ns;
    let advance = |bytes| progress.advance(bytes);
    let issues = if packed {
        let mut out = GzEncoder::new(&mut file, Compression::default());
        splice(stream, &mut out, &advance, shift_ns, insert).and_then(|issues| {
            out.finish()?;
            Ok(issues)
        })
    } else {
        splice(stream, &mut file, &advance, shift_ns, insert)
    };
    progress.file_done(&copy.source.file);
    if let Some(error) = failure.take() {
        return Err(io_error(error));
    }
    match issues {
        Ok(issues) => {
            file.complete()?;
            Ok((to, issues.warnings(&copy.source.file)))
        }
        Err(failure) => Err(match failure {
            Failure::Write(source) => Error::write(to, source),
            Failure::Unreadable(Unreadable::TooLong) => Error::Unusable {
                file: copy.source.file.clone(),
                reason: "it has grown since it was read".to_owned(),
            },
            Failure::Unreadable(why) => {
                Error::Unusable { file: copy.source.file.clone(), reason: why.reason().to_owned() }
            }
        }),
    }
}

fn splice<W: Write>(
    stream: decompress::Stream,
    out: &mut W,
    advance: &dyn Fn(u64),
    shift_ns: i64,
    insert: impl FnOnce(&mut EventWriter<'_>) -> io::Result<()>,
) -> Result<crate::warnings::Issues, Failure> {
    splice::copy(stream, out, advance, |out, comma| {
        insert(&mut EventWriter::new(out, comma, shift_ns))
    })
}

/// The name of a copy. Viewers detect compression by content; the suffix is for people.
fn file_name(file: &str, packing: Packing) -> String {
    match (packing, file.strip_suffix(".gz")) {
        (Packing::Plain, Some(stem)) => stem.to_owned(),
        (Packing::Gzip, None) => format!("{file}.gz"),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_follows_packing() {
        assert_eq!(file_name("a/rank0.json.gz", Packing::Same), "a/rank0.json.gz");
        assert_eq!(file_name("rank0.json.gz", Packing::Gzip), "rank0.json.gz");
        assert_eq!(file_name("rank0.json.gz", Packing::Plain), "rank0.json");
        assert_eq!(file_name("rank0.json", Packing::Gzip), "rank0.json.gz");
    }
}
