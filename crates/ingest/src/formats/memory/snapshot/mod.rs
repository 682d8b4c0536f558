//! PyTorch memory snapshots, as pickles of `torch.cuda.memory._dump_snapshot` or as `SQLite` databases: the memory that the
//! caching allocator holds, and its history. Reads one file from bytes to rows.
//!
//! The modules `torch.xpu` and `torch.mtia` write the same pickles for their devices.
//!
//! All versions since 1.13 are read: a dict of segments and histories, or the bare list of segments;
//! blocks with their stack in `frames`, or as the first entry of `history`.

mod database;
mod history;
mod json;
mod keys;
mod stacks;

use std::collections::BTreeMap;

use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    Snapshot, SnapshotAllocations, SnapshotBlock, SnapshotBlocks, SnapshotDevices, SnapshotEvent,
    SnapshotEvents, SnapshotSegment, SnapshotSegments, SnapshotStacks, Snapshots,
};
use trace_model::{StrId, Strings, TableSet, Warning};

use self::history::{Action, Held, Replay};
use self::json::Writer;
use self::keys::{Entry, Key, Keys, as_list};
use self::stacks::Stacks;
pub(crate) use self::stacks::is_user;
use crate::formats::pickle::{self, Cursor, Graph, Kind, ObjectId, Value};
use crate::input::decompress::JsonInput;
use crate::quantity::RawInteger;
use crate::warnings::{Issue, Issues};

/// Number of a device that is past anything a machine has.
const MAX_DEVICES: usize = 4096;

/// One snapshot, read; its times are as written, in nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Dump {
    segments: SnapshotSegments,
    blocks: SnapshotBlocks,
    events: SnapshotEvents,
    allocations: SnapshotAllocations,
    devices: SnapshotDevices,
    stacks: SnapshotStacks,
    stack_count: u64,
    allocator_settings: String,
    args: String,
    strings: Strings,
    issues: Issues,
    /// Bytes of the pickle, after decompression.
    pub(crate) bytes: u64,
    /// First and last event; absent if events have no times.
    pub(crate) extent: Option<(i64, i64)>,
}

/// The encoding of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Pickle,
    Sqlite,
}

impl Encoding {
    /// Returns the error for a file of this encoding that is not a snapshot.
    fn not_a_snapshot(self) -> &'static str {
        match self {
            Self::Pickle => "a pickle, but no memory snapshot: it has no list of segments",
            Self::Sqlite => {
                "a SQLite database, but no memory snapshot: no row of its table `segments` has a size"
            }
        }
    }
}

/// Reads a snapshot; the error describes the problem.
pub(crate) fn read(
    encoding: Encoding,
    input: JsonInput,
    advance: &dyn Fn(u64),
) -> Result<Dump, String> {
    let mut issues = Issues::default();
    let (graph, bytes) = match encoding {
        Encoding::Pickle => pickle::read(input, advance).map_err(|problem| problem.to_string())?,
        Encoding::Sqlite => {
            let database = database::read(input, advance)?;
            issues.add_many(Issue::SnapshotEntry, database.skipped_rows);
            (database.graph, database.bytes)
        }
    };
    Reader::new(graph, bytes, issues).read(encoding.not_a_snapshot())
}

struct Reader {
    graph: Graph,
    keys: Keys,
    strings: Strings,
    stacks: Stacks,
    issues: Issues,
    /// Containers that became rows: a pickle may use one in many places, and a row is made of it once.
    used: Vec<bool>,
    json: Writer,
    bytes: u64,
    segments: SnapshotSegments,
    blocks: SnapshotBlocks,
    events: SnapshotEvents,
    allocations: SnapshotAllocations,
    /// By device: bytes held at the time of the snapshot, and the size of the segments.
    held: BTreeMap<i32, (Vec<Held>, i64)>,
}

impl Reader {
    fn new(mut graph: Graph, bytes: u64, issues: Issues) -> Self {
        let strings = std::mem::take(&mut graph.strings);
        Self {
            keys: Keys::new(&strings),
            used: vec![false; graph.object_count()],
            // What is left over is never longer than the pickle, unless it shares parts without end.
            json: Writer::new(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(2)),
            graph,
            strings,
            bytes,
            stacks: Stacks::default(),
            issues,
            segments: SnapshotSegments::default(),
            blocks: SnapshotBlocks::default(),
            events: SnapshotEvents::default(),
            allocations: SnapshotAllocations::default(),
            held: BTreeMap::new(),
        }
    }

    fn read(mut self, not_a_snapshot: &str) -> Result<Dump, String> {
        let root = self.graph.root();
        let mut top = Entry::new();
        let segments = if top.read(&self.graph, &self.keys, root) {
            let is_snapshot = [Key::Segments, Key::DeviceTraces]
                .iter()
                .any(|&key| top.list(&self.graph, key).is_some());
            if !is_snapshot {
                return Err(not_a_snapshot.to_owned());
            }
            top.list(&self.graph, Key::Segments)
        } else {
            Some(as_list(&self.graph, root).ok_or(not_a_snapshot)?)
        };
        if let Some(list) = segments {
            self.read_segments(list);
            if self.segments.is_empty() && self.graph.len(list) > 0 {
                return Err(not_a_snapshot.to_owned());
            }
        }
        let has_segments = !self.segments.is_empty();
        let mut devices = SnapshotDevices::default();
        let traces: Vec<Value> = top
            .list(&self.graph, Key::DeviceTraces)
            .map(|list| self.graph.items(list).take(MAX_DEVICES).collect())
            .unwrap_or_default();
        for (device, &trace) in traces.iter().enumerate() {
            self.read_history(device as i32, trace, has_segments, &mut devices);
        }
        // Devices that have segments, but no list of events.
        let rest: Vec<i32> = self.held.keys().copied().collect();
        for device in rest {
            self.read_history(device, Value::None, has_segments, &mut devices);
        }
        Ok(self.finish(&top, devices))
    }

    /// A list that no row was made of yet.
    fn take(&mut self, list: ObjectId) -> bool {
        let used = &mut self.used[list.0 as usize];
        let first = !std::mem::replace(used, true);
        if !first && self.graph.len(list) > 0 {
            self.issues.add(Issue::SharedEntry);
        }
        first
    }

    /// A dict that no row was made of yet, read into `entry`.
    fn entry(&mut self, value: Value, entry: &mut Entry) -> bool {
        if !entry.read(&self.graph, &self.keys, value) {
            self.issues.add(Issue::SnapshotEntry);
            return false;
        }
        match value {
            Value::Object(object) => self.take(object),
            _ => false,
        }
    }

    fn items(&mut self, list: ObjectId) -> Vec<Value> {
        if self.take(list) { self.graph.items(list).collect() } else { Vec::new() }
    }

    fn read_segments(&mut self, list: ObjectId) {
        let mut entry = Entry::new();
        for value in self.items(list) {
            if !self.entry(value, &mut entry) {
                continue;
            }
            let Some(total_bytes) = entry.bytes(Key::TotalSize) else {
                self.issues.add(Issue::SnapshotEntry);
                continue;
            };
            let segment = self.segments.len() as i64;
            let device = entry.integer(Key::Device).and_then(RawInteger::number).unwrap_or(0);
            let id = |key| entry.id(key).unwrap_or(NULL_I64);
            let bytes = |key| entry.bytes(key).unwrap_or(NULL_I64);
            let row = SnapshotSegment {
                segment,
                device,
                address: id(Key::Address),
                stream: id(Key::Stream),
                kind: entry.str(Key::SegmentType),
                pool: match entry.get(Key::SegmentPoolId) {
                    Value::None => StrId::NULL,
                    pool => {
                        let text = self.json.value(&self.graph, &self.strings, pool);
                        text.map_or(StrId::NULL, |text| self.strings.intern(&text))
                    }
                },
                is_expandable: entry.get(Key::IsExpandable) == Value::Bool(true),
                total_bytes,
                allocated_bytes: bytes(Key::AllocatedSize),
                active_bytes: bytes(Key::ActiveSize),
                requested_bytes: bytes(Key::RequestedSize),
                stack: self.stack(&entry),
                ..SnapshotSegment::null_row()
            };
            let (address, stream) = (row.address, row.stream);
            self.segments.push(row);
            let held = self.held.entry(device).or_default();
            held.1 = held.1.saturating_add(total_bytes);
            if let Some(blocks) = entry.list(&self.graph, Key::Blocks) {
                self.read_blocks(blocks, segment, device, address, stream);
            }
        }
    }

    fn stack(&mut self, entry: &Entry) -> i64 {
        self.stacks.find(&self.graph, &self.keys, &mut self.strings, entry.get(Key::Frames))
    }

    fn read_blocks(
        &mut self,
        list: ObjectId,
        segment: i64,
        device: i32,
        mut address: i64,
        stream: i64,
    ) {
        let (mut entry, mut past) = (Entry::new(), Entry::new());
        for (block, value) in self.items(list).into_iter().enumerate() {
            if !self.entry(value, &mut entry) {
                continue;
            }
            let (Some(size_bytes), state) = (entry.bytes(Key::Size), entry.str(Key::State)) else {
                self.issues.add(Issue::SnapshotEntry);
                continue;
            };
            // Newer snapshots say where a block is; older ones only that it follows the one before.
            address = entry.id(Key::Address).unwrap_or(address);
            let first = entry
                .list(&self.graph, Key::History)
                .and_then(|history| self.graph.items(history).next())
                .filter(|&first| past.read(&self.graph, &self.keys, first));
            let (asked, stack) = match first {
                Some(_) => (past.bytes(Key::RealSize), self.stack(&past)),
                None => (entry.bytes(Key::RequestedSize), self.stack(&entry)),
            };
            let is_active = self.strings.get(state).starts_with("active");
            // Without a history, torch before 2.0 does not record requested sizes.
            let asked = asked.filter(|&asked| asked <= size_bytes).unwrap_or(size_bytes);
            self.blocks.push(SnapshotBlock {
                segment,
                block: block as i64,
                device,
                address,
                state,
                size_bytes,
                requested_bytes: if is_active { asked } else { 0 },
                category: entry.str(Key::Category),
                stack: if is_active { stack } else { NULL_I64 },
                ..SnapshotBlock::null_row()
            });
            if is_active {
                let category = entry.str(Key::Category);
                let held = Held { address, bytes: asked, stream, category, stack };
                self.held.entry(device).or_default().0.push(held);
            }
            if address != NULL_I64 {
                address = address.wrapping_add(size_bytes);
            }
        }
    }

    fn read_history(
        &mut self,
        device: i32,
        trace: Value,
        has_segments: bool,
        devices: &mut SnapshotDevices,
    ) {
        let (held, reserved) = self.held.remove(&device).unwrap_or_default();
        let mut replay = Replay::new(device, &self.events, &mut self.strings);
        // There may be millions: they are not collected.
        let trace = as_list(&self.graph, trace).filter(|&list| self.take(list));
        let mut events = trace.map(Cursor::of);
        let is_empty = trace.is_none_or(|list| self.graph.len(list) == 0);
        let mut entry = Entry::new();
        for position in 0_i64.. {
            let Some(value) = events.as_mut().and_then(|events| self.graph.next(events)) else {
                break;
            };
            if !self.entry(value, &mut entry) {
                continue;
            }
            let name = entry.str(Key::Action);
            let action = Action::parse(self.strings.get(name));
            let address = entry.id(Key::Addr).or_else(|| entry.id(Key::Address));
            let bytes = entry.bytes(Key::Size);
            if name.is_null() || (action.needs_place() && (address.is_none() || bytes.is_none())) {
                self.issues.add(Issue::SnapshotEntry);
                continue;
            }
            let time = entry.integer(Key::TimeUs).and_then(RawInteger::time_us);
            if entry.get(Key::SegmentPoolId) != Value::None
                && let Some(key) = self.strings.find("segment_pool_id")
            {
                entry.others.push((key, entry.get(Key::SegmentPoolId)));
            }
            let args = self.json.object(&self.graph, &self.strings, &entry.others);
            if args.is_none() {
                self.issues.add(Issue::SnapshotArgs);
            }
            let mut row = SnapshotEvent {
                device,
                position,
                ts_ns: time.filter(|&ns| ns > 0).unwrap_or(NULL_I64),
                action: name,
                address: address.unwrap_or(NULL_I64),
                bytes: bytes.unwrap_or(NULL_I64),
                stream: entry.id(Key::Stream).unwrap_or(NULL_I64),
                device_free_bytes: entry.bytes(Key::DeviceFree).unwrap_or(NULL_I64),
                category: entry.str(Key::Category),
                stack: self.stack(&entry),
                args: args.unwrap_or_default(),
                ..SnapshotEvent::null_row()
            };
            replay.event(action, &mut row, &mut self.allocations);
            self.events.push_sparse(row);
        }
        if is_empty && held.is_empty() && reserved == 0 {
            return; // a device that this process did not use
        }
        for _ in 0..replay.contradictions {
            self.issues.add(Issue::SnapshotContradiction);
        }
        let reserved = has_segments.then_some(reserved);
        devices.push(replay.finish(&held, reserved, &mut self.events, &mut self.allocations));
    }

    fn finish(mut self, top: &Entry, devices: SnapshotDevices) -> Dump {
        let settings = match top.get(Key::AllocatorSettings) {
            Value::Object(settings) if self.graph.kind(settings) == Kind::Dict => {
                self.json.value(&self.graph, &self.strings, Value::Object(settings))
            }
            _ => Some(String::new()),
        };
        let args = self.json.object(&self.graph, &self.strings, &top.others);
        if settings.is_none() || args.is_none() {
            self.issues.add(Issue::SnapshotArgs);
        }
        let times = self.events.ts_ns.0.iter().copied().filter(|&ts| ts != NULL_I64);
        let extent = times.clone().min().zip(times.max());
        Dump {
            stack_count: self.stacks.whole(),
            stacks: self.stacks.finish(&mut self.strings),
            segments: self.segments,
            blocks: self.blocks,
            events: self.events,
            allocations: self.allocations,
            devices,
            allocator_settings: settings.unwrap_or_default(),
            args: args.unwrap_or_default(),
            strings: self.strings,
            issues: self.issues,
            bytes: self.bytes,
            extent,
        }
    }
}

impl Dump {
    /// Recorded events.
    pub(crate) fn event_count(&self) -> u64 {
        self.events.len() as u64
    }

    /// Problems in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        self.issues.warnings(file)
    }

    /// Turns the snapshot into Arrow batches: `shift_ns` is added to all times.
    pub(crate) fn into_tables(
        self,
        tables: &mut TableSet,
        (rank, snapshot): (i32, i32),
        file: &str,
        shift_ns: i64,
    ) {
        let Self { mut segments, mut blocks, mut events, mut allocations, .. } = self;
        let (mut devices, mut stacks, mut strings) = (self.devices, self.stacks, self.strings);
        let shift = |times: &mut Vec<i64>| {
            for ts in times.iter_mut().filter(|ts| **ts != NULL_I64) {
                *ts = ts.saturating_add(shift_ns);
            }
        };
        shift(&mut events.ts_ns.0);
        shift(&mut allocations.alloc_ts_ns.0);
        shift(&mut allocations.free_ts_ns.0);
        shift(&mut devices.start_ts_ns.0);
        shift(&mut devices.end_ts_ns.0);
        shift(&mut devices.peak_ts_ns.0);
        let mut snapshots = Snapshots::default();
        snapshots.push(Snapshot {
            rank,
            snapshot,
            file: strings.intern(file),
            ts_ns: self.extent.map_or(NULL_I64, |(_, end)| end.saturating_add(shift_ns)),
            segment_count: segments.len() as i64,
            block_count: blocks.len() as i64,
            event_count: events.len() as i64,
            stack_count: self.stack_count as i64,
            allocator_settings: self.allocator_settings,
            args: self.args,
        });
        tables.push("snapshots", snapshots.into_batch(&strings));
        macro_rules! push {
            ($($table:ident as $name:literal),+) => { $(
                $table.rank.0.fill(rank);
                $table.snapshot.0.fill(snapshot);
                tables.push($name, $table.into_batch(&strings));
            )+ };
        }
        push!(devices as "snapshot_devices", segments as "snapshot_segments");
        push!(blocks as "snapshot_blocks", events as "snapshot_events");
        push!(allocations as "snapshot_allocations", stacks as "snapshot_stacks");
        debug_assert_ne!(rank, NULL_I32, "a snapshot has a rank");
    }
}
