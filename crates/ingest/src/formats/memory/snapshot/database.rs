//! Memory snapshots as `SQLite` databases (`torch.cuda.memory._dump_snapshot_sqlite`, pytorch/pytorch#178670): the tables
//! `device_traces`, `blocks` and `segments`. Their columns have the names of the entries of pickles, and become the same graph.
//!
//! A database is read as plain data. It is read from memory, so `SQLite` opens no other file. Only stored columns are read, so no
//! expression of the schema runs. The number of rows is limited by the length of the file, because damaged pages may form cycles.

use std::collections::HashMap;
use std::io::Read as _;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, MAIN_DB, OptionalExtension as _};

use super::MAX_DEVICES;
use crate::formats::pickle::{Graph, GraphBuilder, Part};
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::input::text_reader::TextReader;

/// Maximum bytes of a database, which `SQLite` holds in one allocation (`SQLITE_MAX_ALLOCATION_SIZE`).
const MAX_BYTES: u64 = 2_147_483_391;
/// Maximum bytes of a text or a row. `SQLite` limits have 32 bits.
const MAX_TEXT: i32 = 64 << 20;
/// Bytes of the smallest row. They limit the number of rows of a file.
const MIN_ROW_BYTES: u64 = 4;
const MAX_COLUMNS: usize = 64;
/// Bytes of memory that a graph may take for each byte of the database, as for pickles.
const MEMORY_RATIO: u64 = 8;
/// Bytes of memory that a graph of any database may take.
const ALWAYS_ALLOWED: u64 = 16 << 20;
/// Rows between two checks of the memory that the graph takes. Each new stack is checked, too.
const CHECK_EVERY: u64 = 4096;
/// Maximum bytes of the JSON of a stack. Its parsed values take many times its length.
const MAX_STACK_BYTES: usize = 1 << 20;
/// Byte positions of the write and read versions in the file header. 2 means a write-ahead log, 1 a rollback journal.
const FORMAT_VERSIONS: std::ops::Range<usize> = 18..20;

const TOO_MUCH: &str = "the database has more rows or text than a file of its length can hold: it is damaged, or made to exhaust memory";

/// The content of a database of a memory snapshot.
pub(super) struct Database {
    pub(super) graph: Graph,
    pub(super) bytes: u64,
    /// Number of rows that belong to no segment or device.
    pub(super) skipped_rows: u64,
}

/// Reads a database; the error describes the problem.
pub(super) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<Database, String> {
    let bytes = contents(input, advance)?;
    let length = bytes.len() as u64;
    let connection = open(bytes).map_err(|error| invalid(&error))?;
    let mut reader = Reader {
        connection: &connection,
        graph: GraphBuilder::default(),
        stacks: HashMap::new(),
        length,
        rows: 0,
        text_bytes: 0,
        skipped_rows: 0,
    };
    let root = reader.snapshot()?;
    Ok(Database {
        graph: reader.graph.finish(root),
        bytes: length,
        skipped_rows: reader.skipped_rows,
    })
}

fn invalid(error: &rusqlite::Error) -> String {
    format!("not a valid SQLite database: {error}: copy or dump it again")
}

fn contents(input: JsonInput, advance: &dyn Fn(u64)) -> Result<Vec<u8>, String> {
    let mut reader = TextReader::new(input, advance);
    let mut bytes = Vec::new();
    let read = (&mut reader).take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_BYTES || reader.end() == StreamEnd::TooLong {
        return Err("longer than 2 GiB, the limit for databases: dump it as a pickle, or with fewer entries (max_entries)".to_owned());
    }
    if reader.end() == StreamEnd::Damaged {
        return Err(
            "the compressed data ends early or is damaged: copy or dump it again".to_owned()
        );
    }
    Ok(bytes)
}

/// Opens a database in memory.
fn open(mut bytes: Vec<u8>) -> rusqlite::Result<Connection> {
    // SQLite refuses a database with a write-ahead log in memory. A log file beside the database is not read.
    if let Some(versions) = bytes.get_mut(FORMAT_VERSIONS) {
        versions.fill(1);
    }
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact(MAIN_DB, bytes.as_slice(), bytes.len(), true)?;
    for (option, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(option, value)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(connection)
}

/// A table of a snapshot.
struct Table {
    name: &'static str,
    /// Required columns: a table with rows has one column of each list.
    required: &'static [&'static [&'static str]],
    /// Other column names, with the names of the entries of pickles.
    aliases: &'static [(&'static str, &'static str)],
    /// Columns that state the segment or device of a row. The first one that exists counts.
    place: &'static [&'static str],
}

const SEGMENTS: Table = Table {
    name: "segments",
    required: &[&["total_size", "size"]],
    aliases: &[("addr", "address"), ("size", "total_size"), ("stack", "frames"), DEVICE],
    place: &["segment_id", "id"],
};
const BLOCKS: Table = Table {
    name: "blocks",
    required: &[&["segment_id"], &["size"], &["state"]],
    aliases: &[("addr", "address"), ("stack", "frames"), DEVICE],
    place: &["segment_id"],
};
const DEVICE_TRACES: Table = Table {
    name: "device_traces",
    required: &[&["action"], &["addr", "address"], &["size"]],
    aliases: &[("stack", "frames"), DEVICE],
    place: &["device", "device_id"],
};
const DEVICE: (&str, &str) = ("device_id", "device");
/// Columns that only number rows. Pickles have no such entries.
const NUMBERS: [&str; 2] = ["id", "segment_id"];

struct Reader<'c> {
    connection: &'c Connection,
    graph: GraphBuilder,
    /// Stacks by their JSON, because many rows share a stack.
    stacks: HashMap<String, Part>,
    /// Bytes of the database.
    length: u64,
    rows: u64,
    text_bytes: u64,
    skipped_rows: u64,
}

impl Reader<'_> {
    /// Builds the dict that a pickle of the snapshot contains.
    fn snapshot(&mut self) -> Result<Part, String> {
        let mut blocks: HashMap<i64, Vec<Part>> = HashMap::new();
        self.each_row(&BLOCKS, |reader, segment, entries| {
            match segment {
                Some(segment) => {
                    blocks.entry(segment).or_default().push(built(reader.graph.dict(entries))?);
                }
                None => reader.skipped_rows += 1,
            }
            Ok(())
        })?;
        let blocks_key = self.graph.text("blocks");
        let mut segments = Vec::new();
        self.each_row(&SEGMENTS, |reader, segment, entries| {
            let own = segment.and_then(|segment| blocks.remove(&segment)).unwrap_or_default();
            entries.push((blocks_key, built(reader.graph.list(&own))?));
            segments.push(built(reader.graph.dict(entries))?);
            Ok(())
        })?;
        self.skipped_rows += blocks.values().map(|blocks| blocks.len() as u64).sum::<u64>();
        let mut devices: Vec<Vec<Part>> = Vec::new();
        self.each_row(&DEVICE_TRACES, |reader, device, entries| {
            let device = usize::try_from(device.unwrap_or(0)).unwrap_or(MAX_DEVICES);
            if device >= MAX_DEVICES {
                reader.skipped_rows += 1;
                return Ok(());
            }
            if devices.len() <= device {
                devices.resize_with(device + 1, Vec::new);
            }
            devices[device].push(built(reader.graph.dict(entries))?);
            Ok(())
        })?;
        let traces: Result<Vec<Part>, String> =
            devices.iter().map(|events| built(self.graph.list(events))).collect();
        let traces = built(self.graph.list(&traces?))?;
        let segments = built(self.graph.list(&segments))?;
        let keys = [self.graph.text("segments"), self.graph.text("device_traces")];
        built(self.graph.dict(&[(keys[0], segments), (keys[1], traces)]))
    }

    /// Calls `visit` for each row of a table with its segment or device, and its entries.
    fn each_row(
        &mut self,
        table: &Table,
        mut visit: impl FnMut(&mut Self, Option<i64>, &mut Vec<(Part, Part)>) -> Result<(), String>,
    ) -> Result<(), String> {
        let columns = self.columns(table)?;
        let list = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let query = format!("SELECT {list} FROM {} NOT INDEXED", quoted(table.name));
        let connection = self.connection;
        let mut statement = connection.prepare(&query).map_err(|error| invalid(&error))?;
        let mut rows = statement.query([]).map_err(|error| invalid(&error))?;
        let place = table.place.iter().find_map(|name| columns.iter().position(|c| c == name));
        let keys: Vec<Option<(Part, &str)>> =
            columns.iter().map(|column| self.key(table, column)).collect();
        let mut entries = Vec::with_capacity(keys.len() + 1);
        let mut is_first = true;
        while let Some(row) = rows.next().map_err(|error| invalid(&error))? {
            if std::mem::take(&mut is_first) {
                check_columns(table, &columns)?;
            }
            self.count_row()?;
            entries.clear();
            let mut belongs_to = None;
            for (at, key) in keys.iter().enumerate() {
                let value = row.get_ref(at).map_err(|error| invalid(&error))?;
                if place == Some(at)
                    && let ValueRef::Integer(number) = value
                {
                    belongs_to = Some(number);
                }
                if let Some((key, name)) = key
                    && value != ValueRef::Null
                {
                    entries.push((*key, self.value(name, value)?));
                }
            }
            visit(self, belongs_to, &mut entries)?;
        }
        Ok(())
    }

    /// Returns the names of the columns that a table stores, up to [`MAX_COLUMNS`].
    fn columns(&self, table: &Table) -> Result<Vec<String>, String> {
        let name = table.name;
        let found = self
            .connection
            .query_row("SELECT type, rootpage FROM sqlite_schema WHERE name = ?1", [name], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            })
            .optional()
            .map_err(|error| invalid(&error))?;
        match found {
            None => return Err(format!("a memory snapshot without the table `{name}`")),
            Some((kind, page)) if kind != "table" || page <= 0 => {
                let kind = if kind == "table" { "virtual table" } else { kind.as_str() };
                return Err(format!("a memory snapshot whose `{name}` is a {kind}, not a table"));
            }
            Some(_) => {}
        }
        let mut statement = self
            .connection
            .prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")
            .map_err(|error| invalid(&error))?;
        let names =
            statement.query_map([name], |row| row.get(0)).map_err(|error| invalid(&error))?;
        let names: Vec<String> = names
            .take(MAX_COLUMNS)
            .collect::<rusqlite::Result<_>>()
            .map_err(|error| invalid(&error))?;
        if names.is_empty() {
            return Err(format!("a memory snapshot whose table `{name}` stores no column"));
        }
        Ok(names)
    }

    /// Returns the key of the entry of a column; `None` if the column only numbers rows.
    fn key<'k>(&mut self, table: &Table, column: &'k str) -> Option<(Part, &'k str)> {
        let alias = table.aliases.iter().find(|(other, _)| *other == column);
        let name = alias.map_or(column, |&(_, name)| name);
        (!NUMBERS.contains(&name)).then(|| (self.graph.text(name), name))
    }

    fn value(&mut self, name: &str, value: ValueRef<'_>) -> Result<Part, String> {
        Ok(match value {
            ValueRef::Null => Part::NONE,
            ValueRef::Integer(number) if name == "is_expandable" => Part::bool(number != 0),
            ValueRef::Integer(number) => self.graph.int(number),
            ValueRef::Real(number) => self.graph.float(number),
            ValueRef::Blob(bytes) => {
                self.count_text(bytes)?;
                Part::BYTES
            }
            ValueRef::Text(bytes) => {
                self.count_text(bytes)?;
                let text = String::from_utf8_lossy(bytes);
                if name == "frames" { self.stack(&text)? } else { self.graph.text(&text) }
            }
        })
    }

    /// Returns the frames of a JSON list. Text that is not a JSON list becomes a single frame.
    fn stack(&mut self, text: &str) -> Result<Part, String> {
        if let Some(&known) = self.stacks.get(text) {
            return Ok(known);
        }
        if text.len() > MAX_STACK_BYTES {
            return Err(TOO_MUCH.to_owned());
        }
        let stack = if let Ok(value @ serde_json::Value::Array(_)) = serde_json::from_str(text) {
            built(self.graph.json(&value))?
        } else {
            let frame = self.graph.text(text);
            built(self.graph.list(&[frame]))?
        };
        self.stacks.insert(text.to_owned(), stack);
        self.check_memory()?;
        Ok(stack)
    }

    fn check_memory(&self) -> Result<(), String> {
        let allowed = (self.length * MEMORY_RATIO).max(ALWAYS_ALLOWED);
        if self.graph.memory_bytes() as u64 > allowed { Err(TOO_MUCH.to_owned()) } else { Ok(()) }
    }

    fn count_row(&mut self) -> Result<(), String> {
        self.rows += 1;
        if self.rows > self.length / MIN_ROW_BYTES {
            return Err(TOO_MUCH.to_owned());
        }
        if self.rows.is_multiple_of(CHECK_EVERY) { self.check_memory() } else { Ok(()) }
    }

    fn count_text(&mut self, text: &[u8]) -> Result<(), String> {
        self.text_bytes += text.len() as u64;
        if self.text_bytes > self.length { Err(TOO_MUCH.to_owned()) } else { Ok(()) }
    }
}

/// Returns an error if a table with rows lacks a required column.
fn check_columns(table: &Table, columns: &[String]) -> Result<(), String> {
    let is_there = |names: &&[&str]| names.iter().any(|name| columns.iter().any(|c| c == name));
    match table.required.iter().find(|names| !is_there(names)) {
        Some(names) => Err(format!(
            "a memory snapshot whose table `{}` has no column `{}`",
            table.name, names[0]
        )),
        None => Ok(()),
    }
}

fn built(part: Option<Part>) -> Result<Part, String> {
    part.ok_or_else(|| TOO_MUCH.to_owned())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
