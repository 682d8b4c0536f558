//! Every table, declared once: columns, types, units, meaning.
//!
//! Conventions that hold in all tables:
//! * `rank` is the process; every table has it.
//! * `ts_ns`, `dur_ns`: integer nanoseconds on the run's clock, which starts at 0 with the first
//!   event of the run (`ranks.base_time_ns` is its absolute time, where known).
//! * `event_id` is the position of the event in its file's event list, from 0. With `rank` it
//!   identifies an event; columns such as `parent`, `launch` and `op` hold `event_id`s.
//! * `step` is the number of the training step the event belongs to: by time for host events, by
//!   launching call for device events.
//! * `args` holds, as JSON, the arguments of the event that have no column of their own.

mod compiled;
mod device;
mod execution;
mod flight;
mod graph;
mod host;
mod memory;
mod ranges;
mod run;
mod snapshot;
mod timeline;

pub use compiled::{
    CompiledFrame, CompiledFrames, CompiledKernel, CompiledKernels, GraphBreak, GraphBreaks,
};
pub use device::{DeviceSync, DeviceSyncs, Kernel, Kernels, Memcpy, Memcpys, Memset, Memsets};
pub use execution::{ExecutionNode, ExecutionNodes};
pub use flight::{
    FlightDump, FlightDumps, FlightProcessGroup, FlightProcessGroups, FlightRecord, FlightRecords,
};
pub use graph::{
    CapturedOp, CapturedOps, GraphEdge, GraphEdges, GraphMatch, GraphMatches, GraphNode, GraphNodes,
};
pub use host::{
    Annotation, Annotations, CpuOp, CpuOps, PythonFrame, PythonFrames, RuntimeCall, RuntimeCalls,
};
pub use memory::{MemoryEvent, MemoryEvents};
pub use ranges::{ProfilerRange, ProfilerRanges, RangeCounter, RangeCounters};
pub use run::{
    Device, Devices, EventCount, EventCounts, Processor, Processors, Rank, Ranks, ReadingWarning,
    ReadingWarnings, RecordedCapabilities, RecordedCapability, Step, Steps, Thread, Threads,
    UnprofiledStep, UnprofiledSteps,
};
pub use snapshot::{
    MemoryTimeline, MemoryTimelineEvent, MemoryTimelineEvents, MemoryTimelineSize,
    MemoryTimelineSizes, MemoryTimelines, Snapshot, SnapshotAllocation, SnapshotAllocations,
    SnapshotBlock, SnapshotBlocks, SnapshotDevice, SnapshotDevices, SnapshotEvent, SnapshotEvents,
    SnapshotSegment, SnapshotSegments, SnapshotStack, SnapshotStacks, Snapshots,
};
pub use timeline::{
    Collective, Collectives, Counter, Counters, Flow, Flows, Instant, Instants, Span, Spans,
    UnpairedEvent, UnpairedEvents,
};

use crate::spec::TableSpec;

/// Declares the list of tables.
macro_rules! table_list {
    ($($table:ident),+ $(,)?) => {
        /// A table. In order of documentation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TableId { $(#[doc = concat!("[`", stringify!($table), "`]")] $table,)+ }

        impl TableId {
            /// Name, meaning and columns.
            pub fn spec(self) -> &'static TableSpec {
                match self { $(Self::$table => &$table::SPEC,)+ }
            }
        }

        /// All tables in documentation order.
        pub const TABLES: &[&TableSpec] = &[$(&$table::SPEC),+];
    };
}

impl TableId {
    /// Name in SQL: `kernels`.
    pub fn as_str(self) -> &'static str {
        self.spec().name
    }
}

table_list! {
    Ranks, Devices, Processors, UnprofiledSteps, Threads, Steps, CpuOps, RuntimeCalls, Annotations, PythonFrames, Kernels,
    Memcpys, Memsets, DeviceSyncs, GraphMatches, GraphNodes, CapturedOps, GraphEdges, ProfilerRanges,
    RangeCounters, Collectives, MemoryEvents, Counters, Flows, Instants, Spans, UnpairedEvents,
    ExecutionNodes, CompiledFrames, GraphBreaks, CompiledKernels, FlightDumps, FlightRecords,
    FlightProcessGroups, Snapshots, SnapshotDevices, SnapshotSegments, SnapshotBlocks,
    SnapshotEvents, SnapshotAllocations, SnapshotStacks, MemoryTimelines, MemoryTimelineSizes,
    MemoryTimelineEvents, RecordedCapabilities, EventCounts, ReadingWarnings,
}

/// The spec of a table by name.
pub fn find(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().copied().find(|t| t.name == name)
}

/// Returns whether a column of a view is a time on the run's clock, which shifts with the clock; see
/// [`ColumnSpec::is_timestamp`](crate::ColumnSpec::is_timestamp) for columns of tables.
pub fn is_timestamp(column: &str) -> bool {
    // Lengths of time: since the start of something, up to a moment, and idle time at the end of the recording.
    let is_length =
        ["since_start_ns", "recording_end_ns"].contains(&column) || column.contains("_until_");
    let is_named = |name: &&str| {
        column.strip_suffix(*name).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    };
    !is_length && ["ts_ns", "start_ns", "end_ns", "begin_ns"].iter().any(is_named)
}

/// Fingerprint of the schema. It changes whenever a table or column is added, removed, renamed, moved or gets another
/// type, so rows stored under another fingerprint cannot be read. See also [`crate::SCHEMA_VERSION`].
pub fn fingerprint() -> u64 {
    // FNV-1a: stable across versions, unlike the hashes of the standard library.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&crate::SCHEMA_VERSION.to_string());
    for table in TABLES {
        add(table.name);
        for column in table.columns {
            add(column.name);
            add(column.column_type.as_str());
            add(if column.nullable { "?" } else { "" });
        }
    }
    hash
}

/// Declares a table: its row type, its columns and its [`TableSpec`] from one list.
macro_rules! table {
    (
        $table:ident / $row:ident = $name:literal, $row_is:literal;
        $($column:ident : $kind:ident, $unit:ident, $doc:literal;)+
    ) => {
        #[doc = concat!("Columns of `", $name, "`: one row is ", $row_is, ".")]
        #[derive(Debug, Default, Clone)]
        #[expect(missing_docs, reason = "the text is in SPEC, once")]
        pub struct $table {
            rows: usize,
            $(pub $column: $crate::column::$kind,)+
        }

        #[doc = concat!("One row of `", $name, "`: ", $row_is, ".")]
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "the text is in SPEC, once")]
        pub struct $row {
            $(pub $column: <$crate::column::$kind as $crate::column::Column>::Item,)+
        }

        impl $row {
            /// A row without values: null where columns are nullable, else zero.
            pub fn null_row() -> Self {
                use $crate::column::Column as _;
                Self { $($column: $crate::column::$kind::null_value(),)+ }
            }
        }

        impl $table {
            /// Name, meaning and columns of this table.
            pub const SPEC: $crate::spec::TableSpec = $crate::spec::TableSpec {
                name: $name,
                row: $row_is,
                columns: &[$(
                    $crate::spec::ColumnSpec {
                        name: stringify!($column),
                        column_type: <$crate::column::$kind as $crate::column::Column>::TYPE,
                        nullable: <$crate::column::$kind as $crate::column::Column>::NULLABLE,
                        unit: $crate::spec::Unit::$unit,
                        doc: $doc,
                    },
                )+],
            };

            /// Adds a row.
            pub fn push(&mut self, row: $row) {
                use $crate::column::Column as _;
                $(self.$column.push(row.$column);)+
                self.rows += 1;
            }

            /// Adds a row without storing its nulls: their columns stay shorter (see [`crate::column`]).
            #[inline]
            pub fn push_sparse(&mut self, row: $row) {
                use $crate::column::Column as _;
                $(self.$column.push_sparse(self.rows, row.$column);)+
                self.rows += 1;
            }

            /// Moves the rows of `other` to the end; `remap` translates its string ids. `other` keeps its
            /// capacity.
            pub fn drain(&mut self, other: &mut Self, remap: &[$crate::strings::StrId]) {
                use $crate::column::Column as _;
                $(self.$column.drain(self.rows, &mut other.$column, remap);)+
                self.rows += std::mem::take(&mut other.rows);
            }

            /// These rows, in this order; ids of strings stay those of the same pool.
            #[must_use]
            pub fn take(&self, rows: &[usize]) -> Self {
                use $crate::column::Column as _;
                Self { rows: rows.len(), $($column: self.$column.take(rows),)+ }
            }

            /// Number of rows.
            pub fn len(&self) -> usize {
                self.rows
            }

            /// Returns whether there are no rows.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The Arrow batch.
            pub fn into_batch(self, strings: &$crate::strings::Strings) -> arrow_array::RecordBatch {
                use $crate::column::Column as _;
                let rows = self.rows;
                let columns = vec![$(self.$column.finish(rows, strings)),+];
                let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
                arrow_array::RecordBatch::try_new_with_options(
                    std::sync::Arc::new(Self::SPEC.schema()),
                    columns,
                    &options,
                )
                .expect("columns agree with the spec they were declared with")
            }
        }
    };
}
use table;

#[cfg(test)]
mod tests {
    use super::TABLES;
    use crate::Unit;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_table_has_a_rank() {
        let names: BTreeSet<_> = TABLES.iter().map(|t| t.name).collect();
        assert_eq!(names.len(), TABLES.len());
        for table in TABLES {
            assert_eq!(table.columns[0].name, "rank", "{}", table.name);
            let columns: BTreeSet<_> = table.columns.iter().map(|c| c.name).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        }
    }

    #[test]
    fn moments_are_told_from_lengths_of_time() {
        let named = |is_timestamp: bool| -> BTreeSet<&str> {
            let columns = TABLES.iter().flat_map(|t| t.columns);
            let times = columns.filter(|c| c.unit == Unit::Ns && c.is_timestamp() == is_timestamp);
            times.map(|c| c.name).collect()
        };
        let lengths = [
            "base_time_ns",
            "dur_ns",
            "inductor_dur_ns",
            "launch_dur_ns",
            "mean_dur_ns",
            "recurrence_dur_ns",
            "self_dur_ns",
            "timeout_dur_ns",
        ];
        assert_eq!(named(false), lengths.into());
        let moments = [
            "alloc_ts_ns",
            "completed_ts_ns",
            "cut_ns",
            "end_ns",
            "end_ts_ns",
            "free_ts_ns",
            "launch_ts_ns",
            "peak_ts_ns",
            "ready_ns",
            "start_ns",
            "start_ts_ns",
            "started_ts_ns",
            "steps_end_ns",
            "ts_ns",
        ];
        assert_eq!(named(true), moments.into());
    }

    #[test]
    fn units_agree_with_suffixes() {
        for table in TABLES {
            for column in table.columns {
                if let Some(suffix) = column.unit.suffix() {
                    assert!(column.name.ends_with(suffix), "{}.{}", table.name, column.name);
                }
                for unit in [Unit::Ns, Unit::Ratio, Unit::Count, Unit::GbPerS] {
                    if column.name.ends_with(unit.suffix().unwrap_or("?")) {
                        assert_eq!(column.unit, unit, "{}.{}", table.name, column.name);
                    }
                }
                assert!(!column.doc.is_empty(), "{}.{}", table.name, column.name);
            }
        }
    }
}
