//! `run.json`: what an export holds. A folder without it is none.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use trace_model::tables::{self, TABLES};
use trace_model::{RunInfo, Source, Warning};

/// Its name.
pub(crate) const FILE: &str = "run.json";
/// What the entry `format` says.
const FORMAT: &str = "trace-advisor export";
/// Grows when the layout changes so that this program cannot read it.
const VERSION: u32 = 1;
/// No manifest is longer: partitions of some 100,000 ranks.
pub(crate) const MAX_BYTES: u64 = 256 << 20;

/// Whether a file, by its name in the run and its first bytes, is the manifest of an export.
pub(crate) fn is_manifest(name: &str, head: &[u8]) -> bool {
    let start = &head[..head.len().min(100)];
    name == FILE && memchr::memmem::find(start, FORMAT.as_bytes()).is_some()
}

/// What every version of the manifest says.
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
    run: Run,
    warnings: Vec<Note>,
    /// In the order of their rows in the tables.
    pub(crate) partitions: Vec<Partition>,
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
    /// What its rows take in memory.
    pub(crate) memory_bytes: u64,
    pub(crate) crc32: u32,
}

/// [`RunInfo`].
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Run {
    path: String,
    ranks: Vec<i32>,
    steps: usize,
    wall_ns: i64,
    sources: Vec<Input>,
}

/// [`Source`].
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Input {
    file: String,
    format: String,
    rank: i32,
    rank_from: String,
    json_bytes: u64,
    events: u64,
    shift_ns: i64,
}

/// [`Warning`].
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    code: String,
    file: String,
    message: String,
    count: u64,
}

impl Manifest {
    pub(crate) fn new(run: &RunInfo, warnings: &[Warning], partitions: Vec<Partition>) -> Self {
        let file = |source: &Source| Input {
            file: source.file.clone(),
            format: source.format.to_owned(),
            rank: source.rank,
            rank_from: source.rank_from.to_owned(),
            json_bytes: source.json_bytes,
            events: source.events,
            shift_ns: source.shift_ns,
        };
        let note = |warning: &Warning| Note {
            code: warning.code.to_owned(),
            file: warning.file.clone(),
            message: warning.message.clone(),
            count: warning.count,
        };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tables: format!("{:016x}", tables::fingerprint()),
            schema_version: trace_model::SCHEMA_VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            run: Run {
                path: run.path.clone(),
                ranks: run.ranks.clone(),
                steps: run.steps,
                wall_ns: run.wall_ns,
                sources: run.sources.iter().map(file).collect(),
            },
            warnings: warnings.iter().map(note).collect(),
            partitions,
        }
    }

    /// The text of `run.json`.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        serde_json::to_string(self).map(|text| text + "\n").map_err(|e| e.to_string())
    }

    /// Reads `run.json`; the reason if it is not what this version writes.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let broken = |e: serde_json::Error| format!("{FILE} is damaged: {e}");
        let header: Header = serde_json::from_slice(text).map_err(broken)?;
        if header.format != FORMAT {
            return Err(format!("{FILE} is none of ours"));
        }
        let expected = format!("{:016x}", tables::fingerprint());
        if header.version != VERSION || header.tables != expected {
            let by = if header.program.is_empty() { "?" } else { &header.program };
            return Err(format!(
                "it was written by another version ({by}, layout {}), whose tables are not those of this one ({}, \
                 layout {VERSION})",
                header.version,
                env!("CARGO_PKG_VERSION"),
            ));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(broken)?;
        manifest.check().map_err(|what| format!("{FILE} is damaged: {what}"))?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        for partition in &self.partitions {
            let Partition { table, rank, .. } = partition;
            if !TABLES.iter().any(|spec| spec.name == table) {
                return Err(format!("there is no table {table:?}"));
            }
            if !known.insert((table, rank)) {
                return Err(format!("{table} has a partition twice"));
            }
        }
        let words = self.run.sources.iter().flat_map(|file| [&file.format, &file.rank_from]);
        let mut words = words.chain(self.warnings.iter().map(|note| &note.code));
        match words.find(|word| word.len() > 64) {
            Some(word) => Err(format!("{:?}... is no word of ours", &word.get(..40))),
            None => Ok(()),
        }
    }

    /// What was read, as the user now calls it.
    pub(crate) fn run(&self, path: &str) -> RunInfo {
        let source = |file: &Input| Source {
            file: file.file.clone(),
            format: lasting(&file.format),
            rank: file.rank,
            rank_from: lasting(&file.rank_from),
            json_bytes: file.json_bytes,
            events: file.events,
            shift_ns: file.shift_ns,
        };
        RunInfo {
            path: path.to_owned(),
            ranks: self.run.ranks.clone(),
            steps: self.run.steps,
            wall_ns: self.run.wall_ns,
            selection: String::new(),
            sources: self.run.sources.iter().map(source).collect(),
        }
    }

    /// What could not be read from the traces.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let warning = |note: &Note| Warning {
            code: lasting(&note.code),
            file: note.file.clone(),
            message: note.message.clone(),
            count: note.count,
        };
        self.warnings.iter().map(warning).collect()
    }
}

/// A word for as long as the program runs. There are few of them: they are names of formats and kinds of warnings.
fn lasting(word: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&word) = known.get(word) {
        return word;
    }
    let word: &'static str = Box::leak(word.to_owned().into_boxed_str());
    known.insert(word);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

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
        Manifest::new(&run, &[], vec![partition]).to_text().unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
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
    fn what_others_wrote_is_refused() {
        let text = text();
        let expected = format!("{:016x}", tables::fingerprint());
        for (from, to, reason) in [
            (expected.as_str(), "0123456789abcdef", "another version (0.1.0, layout 1)"),
            ("\"version\":1", "\"version\":2", "another version (0.1.0, layout 2)"),
            ("\"kernels\"", "\"../../etc\"", "no table \"../../etc\""),
            ("trace-advisor export", "something else", "none of ours"),
            ("\"rows\":1", "\"rows\":-1", "damaged"),
            ("}\n", "", "damaged"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            let why = Manifest::parse(changed.as_bytes()).unwrap_err();
            assert!(why.contains(reason), "{from}: {why}");
        }
    }
}
