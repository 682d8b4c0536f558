//! `comm_collectives`: one row per collective and rank.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::argument_text::element_bytes;
use super::calls::{CollectiveCall, CollectiveMetadata, HostEvent, KernelEvent, collective_calls};
use query::BatchBuilder;
use query::columns::{Names, names as texts};
use query::columns::{OptIntColumn, rank_ranges};
use query::rust_view::{RustView, ViewInputs};

pub(crate) const VIEW: RustView = RustView::new(
    "comm_collectives",
    &[
        ("host", HOST),
        (
            "kernels",
            "SELECT rank, event_id, name, ts_ns, dur_ns, device, stream, external_id, op, launch_ts_ns, step
             FROM kernels
             WHERE kind = 'communication'
             ORDER BY rank, ts_ns, event_id",
        ),
        (
            "facts",
            "SELECT rank, event_id, name, group_name, group_description, group_ranks, group_size, dtype,
                input_elements, output_elements, sequence
             FROM collectives
             ORDER BY rank, event_id",
        ),
        ("ranks", "SELECT rank, backend, cut_ns, steps_end_ns FROM ranks ORDER BY rank"),
        ("phases", "SELECT rank, phase, ts_ns, dur_ns FROM host_phases ORDER BY rank, ts_ns"),
    ],
    compute,
);

/// Outer ranges come before those inside.
const HOST: &str =
    "SELECT * FROM host_collectives ORDER BY rank, thread, ts_ns, dur_ns DESC, event_id";

/// A collective with derived values.
#[derive(Debug)]
struct CollectiveRow<'a> {
    rank: i64,
    number: i64,
    call: CollectiveCall<'a>,
    backend: Option<&'a str>,
    sequence: i64,
    is_sequence_recorded: bool,
    dtype: Option<String>,
    input_elements: Option<i64>,
    input_bytes: Option<i64>,
    output_bytes: Option<i64>,
    message_bytes: Option<i64>,
    phase: Option<&'a str>,
    is_complete: bool,
}

fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let (host, kernels) = (inputs.batch("host")?, inputs.batch("kernels")?);
    let host_columns = HostColumns::of(host)?;
    let kernel_columns = KernelColumns::of(kernels)?;
    let metadata_columns = MetadataColumns::of(inputs.batch("facts")?)?;
    let host_rows: BTreeMap<i64, Range<usize>> = rank_ranges(host)?.into_iter().collect();
    let kernel_rows: BTreeMap<i64, Range<usize>> = rank_ranges(kernels)?.into_iter().collect();
    let metadata_rows: BTreeMap<i64, Range<usize>> =
        rank_ranges(inputs.batch("facts")?)?.into_iter().collect();
    let phases = HostPhases::of(inputs.batch("phases")?)?;
    let ranks = RankWindows::of(inputs.batch("ranks")?)?;
    let include_last = inputs.flag("include_last_step")?;

    let mut rows: Vec<CollectiveRow<'_>> = Vec::new();
    let all: BTreeSet<i64> = host_rows.keys().chain(kernel_rows.keys()).copied().collect();
    for rank in all {
        let events: Vec<_> = rows_of(&host_rows, rank).map(|row| host_columns.get(row)).collect();
        let launched: Vec<_> =
            rows_of(&kernel_rows, rank).map(|row| kernel_columns.get(row)).collect();
        let metadata: HashMap<i64, CollectiveMetadata<'_>> =
            rows_of(&metadata_rows, rank).map(|row| metadata_columns.get(row)).collect();
        let window = ranks.rows.get(&rank);
        let mut nth: HashMap<(Option<&str>, Option<&str>, &str), i64> = HashMap::new();
        for (number, call) in
            collective_calls(&events, &launched, &metadata).into_iter().enumerate()
        {
            let counter = nth
                .entry((call.metadata.group_name, call.metadata.group_ranks, call.name))
                .or_default();
            let counted = *counter;
            *counter += 1;
            let at = call.start_ns();
            let (cut, end) =
                window.map_or((None, None), |window| (window.cut_ns, window.steps_end_ns));
            // Collectives on the host are either recorded completely or not at all.
            let on_host = call.device_interval.is_none() && call.interval().is_some();
            let in_window = |cut| at < cut || include_last && end.is_some_and(|end| at <= end);
            rows.push(CollectiveRow {
                is_complete: on_host || cut.is_none_or(in_window),
                backend: call.backend.or(window.and_then(|window| ranks.names.get(window.row))),
                phase: phases.at(rank, at),
                ..collective_row(rank, number as i64, call, counted)
            });
        }
    }
    build_batch(&rows)
}

/// Derives the message size and the sequence number within the group.
fn collective_row(
    rank: i64,
    number: i64,
    call: CollectiveCall<'_>,
    counted: i64,
) -> CollectiveRow<'_> {
    let metadata = &call.metadata;
    let tensors = call.tensor_sizes.as_ref();
    let dtype = metadata.dtype.map(str::to_owned).or_else(|| tensors.and_then(|t| t.dtype.clone()));
    let width = dtype.as_deref().and_then(element_bytes);
    let bytes = |elements: Option<i64>| elements?.checked_mul(width?);
    let input_elements = metadata.input_elements.or(tensors.map(|t| t.elements));
    let of_tensors = tensors.and_then(|t| t.bytes);
    let input_bytes = bytes(metadata.input_elements).or(of_tensors).or(bytes(input_elements));
    let output_bytes = bytes(metadata.output_elements);
    let message_bytes = match (call.name, input_bytes, output_bytes) {
        ("barrier" | "coalesced" | "send_recv" | "other", ..) => None,
        // The output of each rank has the size of all ranks' inputs.
        ("all_gather" | "gather", Some(input), None) => {
            metadata.group_size.and_then(|size| input.checked_mul(size))
        }
        (_, Some(input), output) => Some(input.max(output.unwrap_or(0))),
        (_, None, output) => output,
    };
    CollectiveRow {
        rank,
        number,
        backend: None,
        sequence: metadata.sequence.unwrap_or(counted),
        is_sequence_recorded: metadata.sequence.is_some(),
        dtype,
        input_elements,
        input_bytes,
        output_bytes,
        message_bytes,
        phase: None,
        is_complete: true,
        call,
    }
}

fn build_batch(rows: &[CollectiveRow<'_>]) -> Result<RecordBatch> {
    let timed_on = |row: &CollectiveRow<'_>| {
        row.call
            .interval()
            .map(|_| if row.call.device_interval.is_some() { "device" } else { "host" })
    };
    BatchBuilder::of(rows)
        .int("rank", |r| Some(r.rank))
        .int("collective", |r| Some(r.number))
        .int("event_id", |r| Some(r.call.event_id))
        .text("name", |r| Some(r.call.name))
        .text("written_name", |r| Some(r.call.written))
        .text("backend", |r| r.backend)
        .text("group_name", |r| r.call.metadata.group_name)
        .text("group_description", |r| r.call.metadata.group_description)
        .text("group_ranks", |r| r.call.metadata.group_ranks)
        .int("group_size", |r| r.call.metadata.group_size)
        .int("sequence", |r| Some(r.sequence))
        .text("sequence_from", |r| Some(if r.is_sequence_recorded { "metadata" } else { "order" }))
        .text("dtype", |r| r.dtype.as_deref())
        .int("input_elements", |r| r.input_elements)
        .int("output_elements", |r| r.call.metadata.output_elements)
        .int("input_bytes", |r| r.input_bytes)
        .int("output_bytes", |r| r.output_bytes)
        .int("message_bytes", |r| r.message_bytes)
        .int("host_ts_ns", |r| r.call.host.map(|(ts, _)| ts))
        .int("host_dur_ns", |r| r.call.host.and_then(|(_, dur)| dur))
        .int("thread", |r| r.call.thread)
        .int("kernel_count", |r| Some(i64::from(r.call.kernel_count)))
        .int("first_kernel", |r| r.call.first_kernel)
        .int("device", |r| r.call.device)
        .int("stream", |r| r.call.stream)
        .text("timed_on", timed_on)
        .int("ts_ns", |r| r.call.interval().map(|(start, _)| start))
        .int("dur_ns", |r| r.call.interval().map(|(start, end)| end - start))
        .int("step", |r| r.call.step)
        .text("phase", |r| r.phase)
        .flag("is_complete", |r| r.is_complete)
        .finish()
}

fn rows_of(of: &BTreeMap<i64, Range<usize>>, rank: i64) -> Range<usize> {
    of.get(&rank).cloned().unwrap_or(0..0)
}

struct HostColumns {
    names: Names,
    dims: Names,
    types: Names,
    event_id: OptIntColumn,
    thread: OptIntColumn,
    ts_ns: OptIntColumn,
    dur_ns: OptIntColumn,
    external_id: OptIntColumn,
    step: OptIntColumn,
}

impl HostColumns {
    fn of(batch: &RecordBatch) -> Result<Self> {
        Ok(Self {
            names: texts(batch, "name")?,
            dims: texts(batch, "input_dims")?,
            types: texts(batch, "input_types")?,
            event_id: OptIntColumn::of(batch, "event_id")?,
            thread: OptIntColumn::of(batch, "thread")?,
            ts_ns: OptIntColumn::of(batch, "ts_ns")?,
            dur_ns: OptIntColumn::of(batch, "dur_ns")?,
            external_id: OptIntColumn::of(batch, "external_id")?,
            step: OptIntColumn::of(batch, "step")?,
        })
    }

    fn get(&self, row: usize) -> HostEvent<'_> {
        HostEvent {
            event_id: self.event_id.value_or_0(row),
            name: self.names.get(row).unwrap_or_default(),
            thread: self.thread.value_or_0(row),
            ts_ns: self.ts_ns.value_or_0(row),
            dur_ns: self.dur_ns.value_or_0(row),
            external_id: self.external_id.get(row),
            step: self.step.get(row),
            dims: self.dims.get(row).unwrap_or_default(),
            types: self.types.get(row).unwrap_or_default(),
        }
    }
}

struct KernelColumns {
    names: Names,
    event_id: OptIntColumn,
    ts_ns: OptIntColumn,
    dur_ns: OptIntColumn,
    device: OptIntColumn,
    stream: OptIntColumn,
    external_id: OptIntColumn,
    op: OptIntColumn,
    launch_ts_ns: OptIntColumn,
    step: OptIntColumn,
}

impl KernelColumns {
    fn of(batch: &RecordBatch) -> Result<Self> {
        Ok(Self {
            names: texts(batch, "name")?,
            event_id: OptIntColumn::of(batch, "event_id")?,
            ts_ns: OptIntColumn::of(batch, "ts_ns")?,
            dur_ns: OptIntColumn::of(batch, "dur_ns")?,
            device: OptIntColumn::of(batch, "device")?,
            stream: OptIntColumn::of(batch, "stream")?,
            external_id: OptIntColumn::of(batch, "external_id")?,
            op: OptIntColumn::of(batch, "op")?,
            launch_ts_ns: OptIntColumn::of(batch, "launch_ts_ns")?,
            step: OptIntColumn::of(batch, "step")?,
        })
    }

    fn get(&self, row: usize) -> KernelEvent<'_> {
        KernelEvent {
            event_id: self.event_id.value_or_0(row),
            name: self.names.get(row).unwrap_or_default(),
            ts_ns: self.ts_ns.value_or_0(row),
            dur_ns: self.dur_ns.value_or_0(row),
            device: self.device.get(row),
            stream: self.stream.get(row),
            external_id: self.external_id.get(row),
            op: self.op.get(row),
            launch_ts_ns: self.launch_ts_ns.get(row),
            step: self.step.get(row),
        }
    }
}

struct MetadataColumns {
    names: [Names; 5],
    numbers: [OptIntColumn; 5],
}

impl MetadataColumns {
    fn of(batch: &RecordBatch) -> Result<Self> {
        let text = |name| texts(batch, name);
        let number = |name| OptIntColumn::of(batch, name);
        Ok(Self {
            names: [
                text("name")?,
                text("group_name")?,
                text("group_description")?,
                text("group_ranks")?,
                text("dtype")?,
            ],
            numbers: [
                number("event_id")?,
                number("group_size")?,
                number("input_elements")?,
                number("output_elements")?,
                number("sequence")?,
            ],
        })
    }

    fn get(&self, row: usize) -> (i64, CollectiveMetadata<'_>) {
        let [name, group_name, group_description, group_ranks, dtype] =
            self.names.each_ref().map(|n| n.get(row).filter(|text| !text.is_empty()));
        let [event, group_size, input_elements, output_elements, sequence] =
            self.numbers.each_ref().map(|n| n.get(row));
        let metadata = CollectiveMetadata {
            name,
            group_name,
            group_description,
            group_ranks,
            group_size: group_size.filter(|&size| size > 0),
            dtype,
            input_elements,
            output_elements,
            sequence,
        };
        (event.unwrap_or_default(), metadata)
    }
}

struct RankWindow {
    row: usize,
    cut_ns: Option<i64>,
    steps_end_ns: Option<i64>,
}

struct RankWindows {
    names: Names,
    rows: BTreeMap<i64, RankWindow>,
}

impl RankWindows {
    fn of(batch: &RecordBatch) -> Result<Self> {
        let rank = OptIntColumn::of(batch, "rank")?;
        let (cut, end) =
            (OptIntColumn::of(batch, "cut_ns")?, OptIntColumn::of(batch, "steps_end_ns")?);
        let window = |row| RankWindow { row, cut_ns: cut.get(row), steps_end_ns: end.get(row) };
        let rows = (0..batch.num_rows()).map(|row| (rank.value_or_0(row), window(row))).collect();
        Ok(Self { names: texts(batch, "backend")?, rows })
    }
}

/// The phases of a step on the host.
struct HostPhases {
    names: Names,
    starts: OptIntColumn,
    durs: OptIntColumn,
    rows: BTreeMap<i64, Range<usize>>,
}

impl HostPhases {
    fn of(batch: &RecordBatch) -> Result<Self> {
        Ok(Self {
            names: texts(batch, "phase")?,
            starts: OptIntColumn::of(batch, "ts_ns")?,
            durs: OptIntColumn::of(batch, "dur_ns")?,
            rows: rank_ranges(batch)?.into_iter().collect(),
        })
    }

    fn at(&self, rank: i64, ts_ns: i64) -> Option<&str> {
        let rows = self.rows.get(&rank)?.clone();
        let (mut low, mut high) = (rows.start, rows.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.starts.value_or_0(middle) <= ts_ns { low = middle + 1 } else { high = middle }
        }
        let row = low.checked_sub(1).filter(|row| rows.contains(row))?;
        let end = self.starts.value_or_0(row).saturating_add(self.durs.value_or_0(row));
        if ts_ns < end { self.names.get(row) } else { None }
    }
}
