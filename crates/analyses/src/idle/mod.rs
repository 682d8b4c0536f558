//! `idle_gap_causes`: attributes the idle time of devices to causes.
//!
//! A gap ends with an activity, which a call launched. If the call had returned before the gap began, the device is
//! late: the activity waited for other work. Otherwise the host is late, and the cause is what its thread did until
//! the call returned. If several states overlap, the strongest counts (capturing a graph, the profiler's own work,
//! compiling, loading data, a first launch, start-up, waiting, allocating, copying, launching, computing, dispatching, else
//! Python). The time from the return to the start is launch latency. If a gap begins while the thread waits for the device,
//! what the thread does to launch more belongs to that wait, for as long as it and earlier waits lasted, less the idle time
//! since: without them the host would have been ahead by that time.
//!
//! A gap is unattributed, and the cause says why, if the launch is not recorded, if replayed graphs or work that is not
//! recorded may run in it, if the thread has no events around it, if the thread captures a graph, or if nothing follows on the
//! device.
//!
//! After sorting, one pass over the work and gaps of each device and over the host events in gaps: `O(n log n)`.

mod attribute;
mod cause;
pub(super) mod computations;
mod load;
mod thread;

use query::rust_view::Result;
use trace_model::RecordBatch;

use self::attribute::GapPart;
use self::load::IdleInputs;
use query::BatchBuilder;
use query::columns::{get, ints, names};
use query::rust_view::{RustView, ViewInputs};

/// `idle_gap_causes`.
pub(super) const GAPS: RustView = RustView::new("idle_gap_causes", load::INPUTS, idle_gap_causes);

fn idle_gap_causes(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = IdleInputs::new(inputs)?;
    let mut parts: Vec<GapPart> = Vec::new();
    for device in 0..loaded.devices.len() {
        attribute::attribute_gaps(&loaded, device, &mut parts);
    }
    let batch = inputs.batch("work")?;
    let (event, step) = (ints(batch, "event_id")?, ints(batch, "step")?);
    let (name, category) = (names(batch, "name")?, names(batch, "category")?);
    let device = |part: &GapPart| &loaded.devices[part.device];
    let gap = |part: &GapPart| &device(part).gaps[part.gap];
    let next = |part: &GapPart| Some(&device(part).work[gap(part).next?]);
    let previous = |part: &GapPart| Some(&device(part).work[gap(part).previous?]);
    let is_later = |part: &GapPart| {
        let host = loaded.hosts.get(&device(part).rank);
        host.and_then(|host| host.first_step_end_ns).is_some_and(|end_ns| part.ts_ns >= end_ns)
    };
    let text = |id: u32| loaded.texts.get(id).filter(|text| !text.is_empty());
    BatchBuilder::of(&parts)
        .int("rank", |p| Some(device(p).rank))
        .int("device", |p| Some(device(p).ordinal))
        .int("gap_ts_ns", |p| Some(gap(p).ts_ns))
        .int("gap_end_ns", |p| Some(gap(p).end_ns))
        .text("cause", |p| Some(p.cause.as_str()))
        .text("side", |p| Some(p.cause.side_in_step(is_later(p))))
        .text("state", |p| p.state.map(cause::IdleCause::as_str))
        .int("ts_ns", |p| Some(p.ts_ns))
        .int("dur_ns", |p| Some(p.dur_ns))
        .text("name", |p| text(p.place.name))
        .text("op_name", |p| text(p.place.op))
        .text("source", |p| text(p.place.source))
        .text("range_name", |p| text(p.place.range))
        .int("thread", |p| p.place.thread)
        .int("step", |p| get(&step, next(p).or(previous(p))?.row))
        .int("launch", |p| Some(next(p)?.launch?.id))
        .int("next_event_id", |p| Some(event.value(next(p)?.row)))
        .text("next_name", |p| name.get(next(p)?.row))
        .text("next_category", |p| category.get(next(p)?.row))
        .int("next_stream", |p| Some(next(p)?.stream))
        .int("next_dur_ns", |p| next(p).map(|work| work.end_ns - work.ts_ns))
        .int("previous_event_id", |p| Some(event.value(previous(p)?.row)))
        .finish()
}
