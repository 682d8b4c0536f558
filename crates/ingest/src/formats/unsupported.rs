//! Files that are recognized only to explain why they are skipped.

/// Files that are recognized, but cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsupportedFormat {
    /// JSON of another kind, or a trace that does not look like one from its first bytes.
    OtherJson,
    /// A memory timeline as an HTML picture.
    MemoryTimelinePicture,
    /// A single partition of an export.
    ParquetPartition,
    /// A pickle of something else than a memory snapshot.
    OtherPickle,
    /// A database dump with `INSERT` statements.
    DumpWithInserts,
    /// A database dump of other tables.
    OtherDump,
}

impl UnsupportedFormat {
    /// Describes the file, with the way to get a readable one where there is one.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::OtherJson => "JSON, but not a trace",
            Self::MemoryTimelinePicture => {
                "a memory timeline as a picture in HTML, without its numbers: export it again under a name that \
                 ends in .raw.json.gz or .json.gz"
            }
            Self::ParquetPartition => "Parquet: an export is read as a folder, with its run.json",
            Self::OtherPickle => "a pickle, but not a memory snapshot",
            Self::DumpWithInserts => {
                "a database dump with INSERT statements, which are not read: dump the tables of Determined's \
                 profiler again without --inserts"
            }
            Self::OtherDump => {
                "a database dump that does not begin with the tables of Determined's profiler: dump only these \
                 (pg_dump -t trial_profiler_metrics -t system_metrics)"
            }
        }
    }
}
