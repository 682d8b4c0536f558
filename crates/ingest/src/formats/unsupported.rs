//! Files that are recognized only to explain why they are skipped.

/// Files that are recognized, but cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsupportedFormat {
    /// Nothing at all.
    Empty,
    /// A gzip file whose first bytes cannot be decompressed.
    DamagedGzip,
    /// An archive of files, by the name of its format.
    Archive(&'static str),
    /// Data compressed by another program than gzip, with the program that decompresses it.
    Compressed(&'static str, &'static str),
    /// A report of Nsight Systems.
    NsightSystems,
    /// A `SQLite` database, such as an export of Nsight Systems.
    Sqlite,
    /// An HDF5 file.
    Hdf5,
    /// A program or a library.
    Program,
    /// JSON of another kind, or a trace that does not look like one from its first bytes.
    OtherJson,
    /// A memory timeline as an HTML picture.
    MemoryTimelinePicture,
    /// A single partition of an export.
    ParquetPartition,
    /// A pickle of something else than a memory snapshot or a dump of the Flight Recorder.
    OtherPickle,
    /// A database dump with `INSERT` statements.
    DumpWithInserts,
    /// A database dump of other tables.
    OtherDump,
}

impl UnsupportedFormat {
    /// Describes the file, with the way to get a readable one where there is one.
    pub(crate) fn description(self) -> String {
        let text = match self {
            Self::Empty => "empty",
            Self::DamagedGzip => "damaged gzip",
            Self::Archive(format) => return format!("a {format} archive: unpack it"),
            Self::Compressed(format, program) => {
                return format!("compressed with {format}: decompress it with `{program}`");
            }
            Self::NsightSystems => {
                "a report of Nsight Systems, which is not supported: record with torch.profiler"
            }
            Self::Sqlite => "a SQLite database, which is not supported",
            Self::Hdf5 => "an HDF5 file, which is not supported",
            Self::Program => "a program or a library, not a trace",
            Self::OtherJson => "JSON, but not a trace",
            Self::MemoryTimelinePicture => {
                "a memory timeline as a picture in HTML, without its numbers: export it again under a name that \
                 ends in .raw.json.gz or .json.gz"
            }
            Self::ParquetPartition => "Parquet: an export is read as a folder, with its run.json",
            Self::OtherPickle => {
                "a pickle, but neither a memory snapshot nor a dump of the Flight Recorder"
            }
            Self::DumpWithInserts => {
                "a database dump with INSERT statements, which are not read: dump the tables of Determined's \
                 profiler again without --inserts"
            }
            Self::OtherDump => {
                "a database dump that does not begin with the tables of Determined's profiler: dump only these \
                 (pg_dump -t trial_profiler_metrics -t system_metrics)"
            }
        };
        text.to_owned()
    }

    /// Recognizes a file that people mistake for a trace by its first bytes.
    pub(crate) fn of_bytes(head: &[u8]) -> Option<Self> {
        /// First bytes of formats.
        const MAGIC: [(&[u8], UnsupportedFormat); 11] = [
            (b"PK\x03\x04", UnsupportedFormat::Archive("zip")),
            (b"PK\x05\x06", UnsupportedFormat::Archive("zip")),
            (b"7z\xBC\xAF\x27\x1C", UnsupportedFormat::Archive("7z")),
            (b"\x28\xB5\x2F\xFD", UnsupportedFormat::Compressed("zstd", "zstd -d")),
            (b"\xFD7zXZ\0", UnsupportedFormat::Compressed("xz", "xz -d")),
            (b"BZh", UnsupportedFormat::Compressed("bzip2", "bzip2 -d")),
            (b"\x04\x22\x4D\x18", UnsupportedFormat::Compressed("lz4", "lz4 -d")),
            (b"SQLite format 3\0", UnsupportedFormat::Sqlite),
            (b"\x89HDF\r\n\x1A\n", UnsupportedFormat::Hdf5),
            (b"\x7FELF", UnsupportedFormat::Program),
            (b"\x1F\x8B", UnsupportedFormat::DamagedGzip),
        ];
        /// Place of the mark of tar archives.
        const TAR: std::ops::Range<usize> = 257..262;
        if head.is_empty() {
            return Some(Self::Empty);
        }
        if head.get(TAR).is_some_and(|mark| mark == b"ustar") {
            return Some(Self::Archive("tar"));
        }
        MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| *format)
    }

    /// Recognizes a file by the end of its name, where its bytes say nothing.
    pub(crate) fn of_name(file: &str) -> Option<Self> {
        let name = file.to_ascii_lowercase();
        let is_report = [".nsys-rep", ".qdrep"].iter().any(|suffix| name.ends_with(suffix));
        is_report.then_some(Self::NsightSystems)
    }
}
