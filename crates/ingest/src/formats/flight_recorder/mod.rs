//! Dumps of PyTorch's Flight Recorder: the collectives that one rank called last, as a pickle or as JSON. One file from
//! bytes to rows.
//!
//! Read are versions 1 (one number for collectives and messages, `seq_id`) and 2 (`collective_seq_id`, `p2p_seq_id`), and
//! the bare list of entries that PyTorch wrote before versions.

mod attachment;
mod groups;
mod importer;
mod node;
mod record;

use std::collections::BTreeMap;
use std::io::Read as _;

use memchr::memmem;
use trace_model::column::NULL_I64;
use trace_model::tables::{FlightDump, FlightDumps, FlightProcessGroups, FlightRecords};
use trace_model::{StrId, Strings, TableSet, Warning};

use self::groups::read_groups;
use self::node::Node;
use self::record::RecordReader;
use crate::formats::pickle;
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::input::text_reader::TextReader;
use crate::warnings::Issues;

pub(crate) use importer::FlightRecorder;

/// The serialization format of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Pickle,
    Json,
}

/// Longest JSON that is read. A full buffer of 2000 entries has 1 to 2 MB.
const MAX_JSON: u64 = 256 << 20;

/// Returns whether the first bytes of a dict hold keys that only the Flight Recorder writes.
pub(crate) fn has_keys(text: &[u8]) -> bool {
    let has = |key: &str| memmem::find(text, key.as_bytes()).is_some();
    (has("pg_config") && (has("version") || has("pg_status")))
        || has("nccl_comm_state")
        || has("collective_seq_id")
        || (has("record_id") && has("profiling_name"))
        || (has("seq_id") && has("profiling_name"))
}

/// One dump, read; its times are as written, in nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Dump {
    pub(crate) encoding: Encoding,
    pub(crate) records: FlightRecords,
    groups: FlightProcessGroups,
    strings: Strings,
    version: StrId,
    library_version: StrId,
    has_records: bool,
    /// Rank that the dump states.
    pub(crate) rank: Option<i32>,
    pub(crate) bytes: u64,
    issues: Issues,
}

const NOT_A_DUMP: &str =
    "not a dump of the Flight Recorder: it has no list of entries and no process groups";

/// Reads a dump; the error describes the problem.
pub(crate) fn read(
    encoding: Encoding,
    input: JsonInput,
    advance: &dyn Fn(u64),
) -> Result<Dump, String> {
    match encoding {
        Encoding::Pickle => {
            let (graph, bytes) =
                pickle::read(input, advance).map_err(|problem| problem.to_string())?;
            read_node(encoding, Node::Pickle(&graph, graph.root()), bytes)
        }
        Encoding::Json => {
            let mut reader = TextReader::new(input, advance);
            let mut text = Vec::new();
            let length = (&mut reader).take(MAX_JSON + 1).read_to_end(&mut text);
            length.map_err(|error| format!("cannot be read: {error}"))?;
            if text.len() as u64 > MAX_JSON {
                return Err("far longer than a dump of the Flight Recorder is: refused".to_owned());
            }
            if reader.end() == StreamEnd::Damaged {
                return Err("the compressed data ends early or is damaged: copy or dump it again"
                    .to_owned());
            }
            let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| {
                if error.is_eof() {
                    "the JSON ends in the middle: copy or dump it again".to_owned()
                } else {
                    format!("not valid JSON: {error}")
                }
            })?;
            read_node(encoding, Node::Json(&value), text.len() as u64)
        }
    }
}

fn read_node(encoding: Encoding, root: Node<'_>, bytes: u64) -> Result<Dump, String> {
    let mut dump = Dump {
        encoding,
        records: FlightRecords::default(),
        groups: FlightProcessGroups::default(),
        strings: Strings::default(),
        version: StrId::NULL,
        library_version: StrId::NULL,
        has_records: false,
        rank: None,
        bytes,
        issues: Issues::default(),
    };
    let top: BTreeMap<&str, Node<'_>> = root.entries().collect();
    let entries = if root.is_list() { Some(root) } else { top.get("entries").copied() };
    let entries = entries.filter(|entries| entries.is_list());
    let groups = top.get("pg_config").copied().filter(|groups| groups.is_dict());
    if entries.is_none() && groups.is_none() {
        return Err(NOT_A_DUMP.to_owned());
    }
    let strings = &mut dump.strings;
    let text = |key: &str, strings: &mut Strings| {
        let text = top.get(key).and_then(|node| node.text()).filter(|text| !text.is_empty());
        text.map_or(StrId::NULL, |text| strings.intern(text))
    };
    dump.version = text("version", strings);
    dump.library_version = text("comm_lib_version", strings);
    if dump.library_version.is_null() {
        dump.library_version = text("nccl_version", strings);
    }
    let rank = top.get("rank").and_then(|node| node.integer()?.number());
    dump.rank = rank.filter(|rank| *rank >= 0);
    // As JSON, an empty list of entries is left out.
    dump.has_records = entries.is_some() || encoding == Encoding::Json;
    let members = groups
        .map(|groups| read_groups(groups, &mut dump.strings, &mut dump.groups))
        .unwrap_or_default();
    if let Some(entries) = entries {
        let mut reader = RecordReader::new(&members, bytes);
        for entry in entries.items() {
            reader.read(entry, &mut dump.strings, &mut dump.issues, &mut dump.records);
        }
        let found = !dump.records.is_empty() || entries.items().next().is_none();
        if !found && groups.is_none() {
            return Err(NOT_A_DUMP.to_owned());
        }
    }
    Ok(dump)
}

impl Dump {
    /// Problems in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        self.issues.warnings(file)
    }

    /// First and last time in the dump.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        let FlightRecords { ts_ns, started_ts_ns, completed_ts_ns, .. } = &self.records;
        let lists = [ts_ns, started_ts_ns, completed_ts_ns];
        let times = lists.iter().flat_map(|times| times.0.iter().copied());
        let times = times.filter(|&time| time != NULL_I64);
        times.clone().min().zip(times.max())
    }

    /// Returns whether the records have Python stacks.
    pub(crate) fn has_stacks(&self) -> bool {
        self.records.stack.0.iter().any(|stack| !stack.is_null())
    }

    /// Turns the dump into Arrow batches. `shift_ns` is added to all times; without it, they are left out.
    pub(crate) fn into_tables(
        self,
        tables: &mut TableSet,
        rank: i32,
        file: &str,
        shift_ns: Option<i64>,
    ) {
        let Self { mut records, mut groups, mut strings, .. } = self;
        for times in [&mut records.ts_ns, &mut records.started_ts_ns, &mut records.completed_ts_ns]
        {
            for time in times.0.iter_mut().filter(|time| **time != NULL_I64) {
                *time = shift_ns.map_or(NULL_I64, |shift_ns| time.saturating_add(shift_ns));
            }
        }
        records.rank.0.fill(rank);
        groups.rank.0.fill(rank);
        let ids = || records.record_id.0.iter().copied();
        let mut dumps = FlightDumps::default();
        dumps.push(FlightDump {
            rank,
            file: strings.intern(file),
            version: self.version,
            library_version: self.library_version,
            has_records: self.has_records,
            record_count: records.len() as i64,
            oldest_record_id: ids().min().unwrap_or(NULL_I64),
            newest_record_id: ids().max().unwrap_or(NULL_I64),
        });
        tables.push("flight_dumps", dumps.into_batch(&strings));
        tables.push("flight_records", records.into_batch(&strings));
        tables.push("flight_process_groups", groups.into_batch(&strings));
    }
}
