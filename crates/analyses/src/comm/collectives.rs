//! `comm_collectives`: from what ranks recorded to one row a collective.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::calls::{Facts, HostEvent, KernelEvent, Unit, units};
use super::names;
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

/// Names that backends give their ranges, and what torch calls around them.
const HOST: &str = r"
    SELECT rank, event_id, name, thread, ts_ns, dur_ns, external_id, step, input_dims, input_types
    FROM (
        SELECT rank, event_id, name, thread, ts_ns, dur_ns, external_id, step, input_dims, input_types
        FROM cpu_ops
        WHERE name = 'record_param_comms'
            OR name LIKE 'c10d::%' OR name LIKE '\_c10d\_functional::%' OR name LIKE 'c10d\_functional::%'
            OR name LIKE 'nccl:%' OR name LIKE 'gloo:%' OR name LIKE 'mpi:%' OR name LIKE 'ucc:%'
        UNION ALL
        SELECT rank, event_id, name, thread, ts_ns, dur_ns, external_id, step, input_dims, input_types
        FROM annotations
        WHERE NOT on_device AND (
            name LIKE 'nccl:%' OR name LIKE 'gloo:%' OR name LIKE 'mpi:%' OR name LIKE 'ucc:%'
            OR name LIKE 'rccl:%' OR name LIKE 'xccl:%' OR name LIKE 'hccl:%')
    )
    ORDER BY rank, thread, ts_ns, dur_ns DESC, event_id";

/// A collective and what is derived from it.
#[derive(Debug)]
struct Row<'a> {
    rank: i64,
    number: i64,
    unit: Unit<'a>,
    backend: Option<&'a str>,
    sequence: i64,
    from_metadata: bool,
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
    let read_host = HostColumns::of(host)?;
    let read_kernels = KernelColumns::of(kernels)?;
    let read_facts = FactColumns::of(inputs.batch("facts")?)?;
    let host_rows: BTreeMap<i64, Range<usize>> = rank_ranges(host)?.into_iter().collect();
    let kernel_rows: BTreeMap<i64, Range<usize>> = rank_ranges(kernels)?.into_iter().collect();
    let fact_rows: BTreeMap<i64, Range<usize>> =
        rank_ranges(inputs.batch("facts")?)?.into_iter().collect();
    let phases = Phases::of(inputs.batch("phases")?)?;
    let ranks = Ranks::of(inputs.batch("ranks")?)?;
    let include_last = inputs.flag("include_last_step")?;

    let mut rows: Vec<Row<'_>> = Vec::new();
    let all: BTreeSet<i64> = host_rows.keys().chain(kernel_rows.keys()).copied().collect();
    for rank in all {
        let events: Vec<_> = rows_of(&host_rows, rank).map(|row| read_host.get(row)).collect();
        let launched: Vec<_> =
            rows_of(&kernel_rows, rank).map(|row| read_kernels.get(row)).collect();
        let facts: HashMap<i64, Facts<'_>> =
            rows_of(&fact_rows, rank).map(|row| read_facts.get(row)).collect();
        let about = ranks.rows.get(&rank);
        let mut nth: HashMap<(Option<&str>, Option<&str>, &str), i64> = HashMap::new();
        for (number, unit) in units(&events, &launched, &facts).into_iter().enumerate() {
            let counter =
                nth.entry((unit.facts.group_name, unit.facts.group_ranks, unit.name)).or_default();
            let counted = *counter;
            *counter += 1;
            let at = unit.start_ns();
            let (cut, end) = about.map_or((None, None), |about| (about.cut_ns, about.steps_end_ns));
            // What the host ran is there as a whole or not at all.
            let on_host = unit.on_device.is_none() && unit.interval().is_some();
            let in_window = |cut| at < cut || include_last && end.is_some_and(|end| at <= end);
            rows.push(Row {
                is_complete: on_host || cut.is_none_or(in_window),
                backend: unit.backend.or(about.and_then(|about| ranks.names.get(about.row))),
                phase: phases.at(rank, at),
                ..describe(rank, number as i64, unit, counted)
            });
        }
    }
    output(&rows)
}

/// Sizes, and the number within the group.
fn describe(rank: i64, number: i64, unit: Unit<'_>, counted: i64) -> Row<'_> {
    let facts = &unit.facts;
    let tensors = unit.tensors.as_ref();
    let dtype = facts.dtype.map(str::to_owned).or_else(|| tensors.and_then(|t| t.dtype.clone()));
    let width = dtype.as_deref().and_then(names::width);
    let bytes = |elements: Option<i64>| elements?.checked_mul(width?);
    let input_elements = facts.input_elements.or(tensors.map(|t| t.elements));
    let of_tensors = tensors.and_then(|t| t.bytes);
    let input_bytes = bytes(facts.input_elements).or(of_tensors).or(bytes(input_elements));
    let output_bytes = bytes(facts.output_elements);
    let message_bytes = match (unit.name, input_bytes, output_bytes) {
        ("barrier" | "coalesced" | "send_recv" | "other", ..) => None,
        // What each rank ends up with, all ranks' input.
        ("all_gather" | "gather", Some(input), None) => {
            facts.group_size.and_then(|size| input.checked_mul(size))
        }
        (_, Some(input), output) => Some(input.max(output.unwrap_or(0))),
        (_, None, output) => output,
    };
    Row {
        rank,
        number,
        backend: None,
        sequence: facts.sequence.unwrap_or(counted),
        from_metadata: facts.sequence.is_some(),
        dtype,
        input_elements,
        input_bytes,
        output_bytes,
        message_bytes,
        phase: None,
        is_complete: true,
        unit,
    }
}

fn output(rows: &[Row<'_>]) -> Result<RecordBatch> {
    let timed_on = |row: &Row<'_>| {
        row.unit.interval().map(|_| if row.unit.on_device.is_some() { "device" } else { "host" })
    };
    BatchBuilder::of(rows)
        .int("rank", |r| Some(r.rank))
        .int("collective", |r| Some(r.number))
        .int("event_id", |r| Some(r.unit.event_id))
        .text("name", |r| Some(r.unit.name))
        .text("written_name", |r| Some(r.unit.written))
        .text("backend", |r| r.backend)
        .text("group_name", |r| r.unit.facts.group_name)
        .text("group_description", |r| r.unit.facts.group_description)
        .text("group_ranks", |r| r.unit.facts.group_ranks)
        .int("group_size", |r| r.unit.facts.group_size)
        .int("sequence", |r| Some(r.sequence))
        .text("sequence_from", |r| Some(if r.from_metadata { "metadata" } else { "order" }))
        .text("dtype", |r| r.dtype.as_deref())
        .int("input_elements", |r| r.input_elements)
        .int("output_elements", |r| r.unit.facts.output_elements)
        .int("input_bytes", |r| r.input_bytes)
        .int("output_bytes", |r| r.output_bytes)
        .int("message_bytes", |r| r.message_bytes)
        .int("host_ts_ns", |r| r.unit.host.map(|(ts, _)| ts))
        .int("host_dur_ns", |r| r.unit.host.and_then(|(_, dur)| dur))
        .int("thread", |r| r.unit.thread)
        .int("kernel_count", |r| Some(i64::from(r.unit.kernels)))
        .int("first_kernel", |r| r.unit.first_kernel)
        .int("device", |r| r.unit.device)
        .int("stream", |r| r.unit.stream)
        .text("timed_on", timed_on)
        .int("ts_ns", |r| r.unit.interval().map(|(start, _)| start))
        .int("dur_ns", |r| r.unit.interval().map(|(start, end)| end - start))
        .int("step", |r| r.unit.step)
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

struct FactColumns {
    names: [Names; 5],
    numbers: [OptIntColumn; 5],
}

impl FactColumns {
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

    fn get(&self, row: usize) -> (i64, Facts<'_>) {
        let [name, group_name, group_description, group_ranks, dtype] =
            self.names.each_ref().map(|n| n.get(row).filter(|text| !text.is_empty()));
        let [event, group_size, input_elements, output_elements, sequence] =
            self.numbers.each_ref().map(|n| n.get(row));
        let facts = Facts {
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
        (event.unwrap_or_default(), facts)
    }
}

struct AboutRank {
    row: usize,
    cut_ns: Option<i64>,
    steps_end_ns: Option<i64>,
}

struct Ranks {
    names: Names,
    rows: BTreeMap<i64, AboutRank>,
}

impl Ranks {
    fn of(batch: &RecordBatch) -> Result<Self> {
        let rank = OptIntColumn::of(batch, "rank")?;
        let (cut, end) =
            (OptIntColumn::of(batch, "cut_ns")?, OptIntColumn::of(batch, "steps_end_ns")?);
        let about = |row| AboutRank { row, cut_ns: cut.get(row), steps_end_ns: end.get(row) };
        let rows = (0..batch.num_rows()).map(|row| (rank.value_or_0(row), about(row))).collect();
        Ok(Self { names: texts(batch, "backend")?, rows })
    }
}

/// Which phase of a step the host is in.
struct Phases {
    names: Names,
    starts: OptIntColumn,
    durs: OptIntColumn,
    rows: BTreeMap<i64, Range<usize>>,
}

impl Phases {
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
