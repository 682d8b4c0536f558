//! `run.json`: the manifest of an export. A folder without it is not an export.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use trace_model::tables::{self, TABLES};
use trace_model::{RunInfo, Warning};

use super::bounds::{self, check_count};
use super::checksum::{check_seal, sealed_json};
use super::layout::partition_path;
use crate::error::ExportProblem;

/// File name of the manifest.
pub(crate) const FILE: &str = "run.json";
/// Value of the entry `format`.
const FORMAT: &str = "trace-advisor export";
/// Version of the layout. Increases with incompatible changes.
const VERSION: u32 = 2;

/// Returns whether a file is the manifest of an export, by its name in the run and its first bytes.
pub(crate) fn is_manifest(name: &str, head: &[u8]) -> bool {
    let start = &head[..head.len().min(100)];
    name == FILE && memchr::memmem::find(start, FORMAT.as_bytes()).is_some()
}

/// Entries of all versions of the manifest.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
    tables: String,
    #[serde(default)]
    program: String,
}

/// The manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Always [`FORMAT`], and the first entry.
    format: String,
    version: u32,
    /// [`tables::fingerprint`] as hexadecimal text.
    tables: String,
    schema_version: u32,
    /// Version of the program that wrote it.
    program: String,
    run: RunInfo,
    warnings: Vec<Warning>,
    /// In the order of their rows in the tables.
    pub(crate) partitions: Vec<Partition>,
}

/// The entries that say which files belong to an export, whatever version wrote it.
#[derive(Deserialize)]
struct Files {
    partitions: Vec<PartitionFile>,
}

#[derive(Deserialize)]
struct PartitionFile {
    table: String,
    #[serde(default)]
    rank: Option<i32>,
}

/// The paths of the files of an export, relative to it, except the manifest itself. The manifest may be that of another
/// version.
pub(super) fn partition_files(text: &[u8]) -> Result<BTreeSet<String>, serde_json::Error> {
    let files: Files = serde_json::from_slice(text)?;
    Ok(files.partitions.iter().map(|file| partition_path(&file.table, file.rank)).collect())
}

/// One file of the export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Partition {
    pub(crate) table: String,
    /// The rank whose timeline it is; absent for rows about the run, or from other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rank: Option<i32>,
    pub(crate) rows: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// Size of its rows in memory.
    pub(crate) memory_bytes: u64,
    pub(crate) crc32: u32,
}

impl Partition {
    /// Rows that need no file, because there are none.
    pub(crate) fn empty(name: &str) -> Self {
        Self { table: name.to_owned(), rank: None, rows: 0, bytes: 0, memory_bytes: 0, crc32: 0 }
    }

    /// Checks that its numbers are possible. [`super::partition_file::PartitionFile`] compares them with its file.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { table, rows, bytes, memory_bytes, .. } = self;
        check_count(table, "rows", *rows)?;
        check_count(table, "bytes", *bytes)?;
        check_count(table, "memory_bytes", *memory_bytes)?;
        if *bytes == 0 && *self != Self::empty(table) {
            return Err(format!("{table} has {rows} rows and no file"));
        }
        Ok(())
    }
}

impl Manifest {
    pub(crate) fn new(run: &RunInfo, warnings: &[Warning], partitions: Vec<Partition>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tables: format!("{:016x}", tables::fingerprint()),
            schema_version: trace_model::SCHEMA_VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            run: run.clone(),
            warnings: warnings.to_vec(),
            partitions,
        }
    }

    /// The text of `run.json`.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        sealed_json(self).map_err(|e| e.to_string())
    }

    /// Reads `run.json`; the problem if it is not what this version writes.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, ExportProblem> {
        let damaged = |what: String| ExportProblem::Damaged(format!("{FILE} is damaged: {what}"));
        let broken = |e: serde_json::Error| damaged(e.to_string());
        let header: Header = serde_json::from_slice(text).map_err(broken)?;
        if header.format != FORMAT {
            return Err(ExportProblem::Damaged(format!("{FILE} is not the manifest of an export")));
        }
        if header.version == VERSION {
            check_seal(text).map_err(damaged)?;
        }
        let expected = format!("{:016x}", tables::fingerprint());
        if header.version != VERSION || header.tables != expected {
            let program = if header.program.is_empty() { "?".to_owned() } else { header.program };
            return Err(ExportProblem::OtherVersion {
                program,
                layout: header.version,
                this_program: env!("CARGO_PKG_VERSION"),
                this_layout: VERSION,
            });
        }
        let manifest: Self = serde_json::from_slice(text).map_err(broken)?;
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.schema_version != trace_model::SCHEMA_VERSION {
            return Err(format!("it states version {} of the tables", self.schema_version));
        }
        bounds::check_run(&self.run)?;
        bounds::check_warnings(&self.warnings)?;
        let mut known = BTreeSet::new();
        for partition in &self.partitions {
            let Partition { table, rank, .. } = partition;
            if !TABLES.iter().any(|spec| spec.name == table) {
                return Err(format!("there is no table {table:?}"));
            }
            if !known.insert((table, rank)) {
                return Err(format!("{table} has a partition twice"));
            }
            partition.check()?;
        }
        let of_ranks = self.partitions.iter().filter(|file| file.table == tables::Ranks::SPEC.name);
        let rows: u64 = of_ranks.map(|file| file.rows).sum();
        if rows != self.run.ranks.len() as u64 {
            return Err(format!("the run has {} ranks, its tables {rows}", self.run.ranks.len()));
        }
        Ok(())
    }

    /// The exported run, with the path that the user gave.
    pub(crate) fn run(&self, path: &str) -> RunInfo {
        RunInfo { path: path.to_owned(), ..self.run.clone() }
    }

    /// Problems while reading the traces.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::checksum::forged;

    fn text() -> String {
        let run = RunInfo { path: "run".to_owned(), ranks: vec![3], ..RunInfo::default() };
        let partition = Partition {
            table: "kernels".to_owned(),
            rank: Some(3),
            rows: 1,
            bytes: 2,
            memory_bytes: 3,
            crc32: 4,
        };
        let ranks = Partition { table: "ranks".to_owned(), rank: None, ..partition.clone() };
        Manifest::new(&run, &[], vec![partition, ranks]).to_text().unwrap()
    }

    #[test]
    fn parse_reads_what_to_text_writes() {
        let text = text();
        assert!(is_manifest("run.json", text.as_bytes()));
        assert!(!is_manifest("below/run.json", text.as_bytes()));
        assert!(!is_manifest("run.json", b"{\"traceEvents\": []}"));
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.run("here").ranks, [3]);
        assert_eq!(manifest.run("here").path, "here");
        assert_eq!(manifest.partitions[0].crc32, 4);
    }

    #[test]
    fn parse_refuses_other_versions_and_damage() {
        let text = text();
        let expected = format!("{:016x}", tables::fingerprint());
        for (from, to, reason) in [
            (expected.as_str(), "0123456789abcdef", "its content has changed"),
            ("\"version\":2", "\"version\":3", "another version (0.1.0, layout 3)"),
            ("trace-advisor export", "something else", "not the manifest of an export"),
            ("\"rows\":1", "\"rows\":7", "its content has changed"),
            ("\"wall_ns\":0", "\"wall_ns\":7", "its content has changed"),
            ("}\n", "", "damaged"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            let why = Manifest::parse(changed.as_bytes()).unwrap_err().to_string();
            assert!(why.contains(reason), "{from}: {why}");
        }
    }

    #[test]
    fn parse_refuses_what_a_checksum_does_not_notice() {
        let text = text();
        let expected = format!("{:016x}", tables::fingerprint());
        for (from, to, reason) in [
            (expected.as_str(), "0123456789abcdef", "another version (0.1.0, layout 2)"),
            ("\"kernels\"", "\"../../etc\"", "no table \"../../etc\""),
            ("\"rows\":1", "\"rows\":-1", "invalid value"),
            (
                "\"rows\":1",
                "\"rows\":4611686018427387904",
                "rows of kernels is 4611686018427387904",
            ),
            ("\"bytes\":2", "\"bytes\":0", "kernels has 1 rows and no file"),
            (
                "\"memory_bytes\":3",
                "\"memory_bytes\":18446744073709551615",
                "memory_bytes of kernels",
            ),
            ("\"wall_ns\":0", "\"wall_ns\":-1", "wall_ns of the run is -1"),
            ("\"wall_ns\":0", "\"wall_ns\":9223372036854775807", "wall_ns of the run"),
            ("\"ranks\":[3]", "\"ranks\":[3,2]", "ranks of the run are not in order"),
            ("\"ranks\":[3]", "\"ranks\":[]", "the run has 0 ranks, its tables 1"),
            ("\"steps\":0", "\"steps\":9223372036854775808", "steps of the run"),
        ] {
            let forged = forged(&text, from, to);
            let why = Manifest::parse(forged.as_bytes()).unwrap_err().to_string();
            assert!(why.contains(reason), "{from}: {why}");
        }
    }

    #[test]
    fn partition_files_are_known_for_other_versions() {
        let text = text().replace("\"version\":2", "\"version\":7");
        let files = partition_files(text.as_bytes()).unwrap();
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            ["kernels/rank-00003.parquet", "ranks/run.parquet"]
        );
        assert!(partition_files(b"{").is_err());
    }
}
