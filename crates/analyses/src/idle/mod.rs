//! Why a device is idle: `idle_gap_causes`.
//!
//! A gap ends with an activity, and the activity was launched by a call. If the call had returned before the gap
//! began, the device is late: the activity waited for other work. If not, the host is late: what its thread did until
//! the call returned is the cause, by the strongest of all that was going on (loading, waiting, allocating, copying,
//! launching, dispatching, else Python); from the return to the start it is the launch's latency. A gap that begins
//! while the thread waits for the device is that wait's, all of it but loading: without it the host would have been
//! ahead. Where the launch is not recorded, or replayed graphs may hide work, the cause says that it cannot be told.
//!
//! One walk over the work and gaps of each device and over the host events in gaps, after sorting: `O(n log n)`.

mod attribute;
mod cause;
mod load;
mod thread;

use query::rust_view::Result;
use trace_model::RecordBatch;

use self::attribute::Part;
use self::load::Loaded;
use query::BatchBuilder;
use query::columns::{get, ints, names};
use query::rust_view::{RustView, ViewInputs};

/// `idle_gap_causes`.
pub(super) const GAPS: RustView = RustView::new("idle_gap_causes", load::READS, idle_gap_causes);

fn idle_gap_causes(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = Loaded::new(inputs)?;
    let mut parts: Vec<Part> = Vec::new();
    for device in 0..loaded.devices.len() {
        attribute::parts(&loaded, device, &mut parts);
    }
    let batch = inputs.batch("work")?;
    let (event, step) = (ints(batch, "event_id")?, ints(batch, "step")?);
    let (name, category) = (names(batch, "name")?, names(batch, "category")?);
    let device = |part: &Part| &loaded.devices[part.device];
    let gap = |part: &Part| &device(part).gaps[part.gap];
    let next = |part: &Part| Some(&device(part).work[gap(part).next?]);
    let previous = |part: &Part| Some(&device(part).work[gap(part).previous?]);
    let text = |id: u32| loaded.texts.get(id).filter(|text| !text.is_empty());
    BatchBuilder::of(&parts)
        .int("rank", |p| Some(device(p).rank))
        .int("device", |p| Some(device(p).ordinal))
        .int("gap_ts_ns", |p| Some(gap(p).ts))
        .int("gap_end_ns", |p| Some(gap(p).end))
        .text("cause", |p| Some(p.cause.as_str()))
        .text("side", |p| Some(p.cause.side()))
        .text("state", |p| p.state.map(cause::Cause::as_str))
        .int("ts_ns", |p| Some(p.ts))
        .int("dur_ns", |p| Some(p.dur))
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
        .int("next_dur_ns", |p| next(p).map(|work| work.end - work.ts))
        .int("previous_event_id", |p| Some(event.value(previous(p)?.row)))
        .finish()
}
