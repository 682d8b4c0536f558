//! Files that are recognized only to explain why they are skipped.

use super::head::{Head, ZipEntry};
use super::pickle;

/// Keys that distinguish an export of Nsight Systems as JSON: one object per line.
const NSIGHT_KEYS: [&str; 4] =
    ["\"TraceProcessEvent\"", "\"CudaEvent\"", "\"NvtxEvent\"", "\"GpuContextInfo\""];

/// Tables by which databases are recognized, with the format: one of these tables is enough.
const DATABASES: [(&[&str], UnsupportedFormat); 3] = [
    (
        &["StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "TARGET_INFO_SYSTEM_ENV", "NVTX_EVENTS"],
        UnsupportedFormat::NsightSystemsDatabase,
    ),
    (
        &["rocpd_metadata", "rocpd_string", "rocpd_op", "rocpd_kernelapi", "rocpd_info_node"],
        UnsupportedFormat::RocpdDatabase,
    ),
    (
        &["CANN_API", "PYTORCH_API", "COMPUTE_TASK_INFO", "COMMUNICATION_OP"],
        UnsupportedFormat::AscendDatabase,
    ),
];

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
    /// A zip archive; if it begins with a file of a format that can be read, with
    /// [`Descriptor::files`](super::importer::Descriptor::files) of that format.
    Zip(Option<&'static str>),
    /// A file of `torch.save`.
    TorchSave,
    /// A report of Nsight Systems.
    NsightSystems,
    /// An export of Nsight Systems as a `SQLite` database.
    NsightSystemsDatabase,
    /// One table of an export of Nsight Systems as Parquet.
    NsightSystemsParquet,
    /// A database of the profilers of `ROCm`.
    RocpdDatabase,
    /// Output of rocprofv3 as JSON.
    RocprofJson,
    /// A profile of XLA: of JAX, TensorFlow or PyTorch/XLA.
    Xplane,
    /// A database of the profiler of Ascend devices.
    AscendDatabase,
    /// Another `SQLite` database.
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
            Self::Zip(None) => "a zip archive: unpack it",
            Self::Zip(Some(files)) => {
                return format!("a zip archive that begins with one of the {files}: unpack it");
            }
            Self::TorchSave => "a file of torch.save, not a trace",
            Self::NsightSystems => {
                "a report of Nsight Systems, which is not supported: record with torch.profiler"
            }
            Self::NsightSystemsDatabase => {
                "an export of Nsight Systems (SQLite), which is not supported: record with torch.profiler"
            }
            Self::NsightSystemsParquet => {
                "a table of an export of Nsight Systems (Parquet), which is not supported: record with torch.profiler"
            }
            Self::RocpdDatabase => {
                "a database of ROCm's profilers (rocpd), which is not supported: record with torch.profiler"
            }
            Self::RocprofJson => {
                "the output of rocprofv3 as JSON, which is not supported: record with torch.profiler"
            }
            Self::Xplane => {
                "a profile of XLA (XSpace), which is not supported: record with torch.profiler"
            }
            Self::AscendDatabase => {
                "a database of the profiler of Ascend devices, which is not supported: export it as a Chrome trace"
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

    /// Recognizes a file by bytes that no file of a format that can be read contains at this place.
    pub(crate) fn of_content(head: &Head<'_>) -> Option<Self> {
        /// First bytes of formats.
        const MAGIC: [(&[u8], UnsupportedFormat); 8] = [
            (b"7z\xBC\xAF\x27\x1C", UnsupportedFormat::Archive("7z")),
            (b"\x28\xB5\x2F\xFD", UnsupportedFormat::Compressed("zstd", "zstd -d")),
            (b"\xFD7zXZ\0", UnsupportedFormat::Compressed("xz", "xz -d")),
            (b"BZh", UnsupportedFormat::Compressed("bzip2", "bzip2 -d")),
            (b"\x04\x22\x4D\x18", UnsupportedFormat::Compressed("lz4", "lz4 -d")),
            (b"\x89HDF\r\n\x1A\n", UnsupportedFormat::Hdf5),
            (b"\x7FELF", UnsupportedFormat::Program),
            (b"\x1F\x8B", UnsupportedFormat::DamagedGzip),
        ];
        /// Place of the mark of tar archives.
        const TAR: std::ops::Range<usize> = 257..262;
        let bytes = head.bytes();
        if bytes.is_empty() {
            return Some(Self::Empty);
        }
        if bytes.get(TAR).is_some_and(|mark| mark == b"ustar") {
            return Some(Self::Archive("tar"));
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            let is_saved = |entry: &ZipEntry| entry.name.rsplit('/').next() == Some("data.pkl");
            let is_saved = head.zip_entry().is_some_and(is_saved);
            return Some(if is_saved { Self::TorchSave } else { Self::Zip(None) });
        }
        if head.is_sqlite() {
            let is_of = |(tables, _): &&(&[&str], Self)| {
                tables.iter().any(|table| head.has_sqlite_table(table))
            };
            return Some(DATABASES.iter().find(is_of).map_or(Self::Sqlite, |(_, format)| *format));
        }
        if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
            return Some(*format);
        }
        if head.begins_with(b'{') && head.has_any(&NSIGHT_KEYS) {
            return Some(Self::NsightSystems);
        }
        if head.begins_with(b'{') && head.has("\"rocprofiler-sdk-tool\"") {
            return Some(Self::RocprofJson);
        }
        if bytes.starts_with(b"PAR1") {
            let is_nsight = head.has_sibling("StringIds.parquet");
            return Some(if is_nsight {
                Self::NsightSystemsParquet
            } else {
                Self::ParquetPartition
            });
        }
        if head.has("<title>GPU Memory Timeline HTML</title>") {
            return Some(Self::MemoryTimelinePicture);
        }
        pickle::is_pickle(bytes).then_some(Self::OtherPickle)
    }

    /// Recognizes a file by the end of its name, where its bytes say nothing.
    pub(crate) fn of_name(file: &str) -> Option<Self> {
        let name = file.to_ascii_lowercase();
        let ends_with = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
        if ends_with(&[".nsys-rep", ".qdrep"]) {
            Some(Self::NsightSystems)
        } else {
            ends_with(&[".xplane.pb"]).then_some(Self::Xplane)
        }
    }
}
