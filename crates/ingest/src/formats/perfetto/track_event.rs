//! Track events: the events of Perfetto's SDK, and PyTorch's operators and calls.

use prost::Message as _;

use super::annotations;
use super::drafts::{Draft, Drafts, Key, Text};
use super::interned::Interned;
use super::rocprof;
use super::schema::LegacyEvent;
use super::slices::Mark;
use super::state::{Pending, State};
use super::text::{push_decimal, push_integer, push_natural, push_string};
use super::tracks::unnamed;
use super::wire::{Fields, Malformed, Value, for_each_number};
use crate::warnings::Issue;

// Types of track events.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// The argument that identifies a synchronization. PyTorch omits the category of synchronizations.
const SYNC_KIND: &[u8] = b"cuda_sync_kind";

/// First number of the separate tracks of legacy events that state process and thread.
const FIRST_LEGACY_TRACK: u64 = 1 << 62;

/// A value of a counter.
#[derive(Debug, Clone, Copy)]
enum Sample {
    Integer(i64),
    Decimal(f64),
}

/// A track event in its wire format, without annotations.
#[derive(Debug, Default)]
struct TrackEvent<'w> {
    kind: u64,
    track: u64,
    name: Option<&'w [u8]>,
    name_iid: Option<u64>,
    category: Option<&'w [u8]>,
    category_iid: Option<u64>,
    sample: Option<Sample>,
    legacy: Option<&'w [u8]>,
}

impl<'w> TrackEvent<'w> {
    /// Reads an event, and collects its annotations.
    fn read(pending: &Pending<'w>, annotations: &mut Vec<&'w [u8]>) -> Result<Self, Malformed> {
        annotations.clear();
        let mut event = Self { track: pending.default_track, ..Self::default() };
        let mut fields = Fields::new(pending.message);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (4, Value::Bytes(annotation)) => annotations.push(annotation),
                (9, Value::Varint(kind)) => event.kind = kind,
                (10, Value::Varint(iid)) => event.name_iid = Some(iid),
                (11, Value::Varint(uuid)) => event.track = uuid,
                (3, iids) => for_each_number(iids, |iid| {
                    event.category_iid.get_or_insert(iid);
                })?,
                (22, Value::Bytes(category)) => {
                    event.category.get_or_insert(category);
                }
                (23, Value::Bytes(name)) => event.name = Some(name),
                (30, Value::Varint(value)) => event.sample = Some(Sample::Integer(value as i64)),
                (44, Value::Fixed64(bits)) => {
                    event.sample = Some(Sample::Decimal(f64::from_bits(bits)));
                }
                (6, Value::Bytes(legacy)) => event.legacy = Some(legacy),
                _ => {}
            }
        }
        Ok(event)
    }
}

/// Adds a pending event.
pub(super) fn add<'w>(
    pending: &Pending<'w>,
    state: &'w State,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let event = TrackEvent::read(pending, &mut drafts.annotations)?;
    let ts_ns = pending.ts_ns;
    match event.kind {
        SLICE_END => drafts.marks.push(Mark::end(event.track, ts_ns)),
        SLICE_BEGIN | INSTANT => {
            let lane = lane(event.track, state, drafts);
            let begins = (event.kind == SLICE_BEGIN).then_some(event.track);
            let phase = if begins.is_some() { b'X' } else { b'i' };
            let times = Times { ts_ns, dur_ns: begins.map(|_| 0) };
            add_named(pending, state, drafts, &event, phase, lane, times, None, begins)?;
        }
        COUNTER => add_sample(&event, ts_ns, state, drafts),
        _ => match event.legacy {
            Some(legacy) => add_legacy(pending, state, drafts, event, legacy)?,
            None => drafts.issues.add(Issue::UnknownPhase),
        },
    }
    Ok(())
}

/// Returns process and thread of a track.
fn lane<'w>(track: u64, state: &'w State, drafts: &mut Drafts<'w>) -> (Text<'w>, Text<'w>) {
    if let Some(track) = state.tracks.get(track) {
        return (Text::Stored(&track.lane.pid), Text::Stored(&track.lane.tid));
    }
    drafts.issues.add(Issue::UnknownTrack);
    let tid = drafts.made(|text| push_string(text, &unnamed(track)));
    (Text::Stored(b""), Text::Made(tid))
}

#[derive(Clone, Copy)]
struct Times {
    ts_ns: i64,
    dur_ns: Option<i64>,
}

/// Adds an event with its name, category and arguments. `begins` is the track on which the event begins a slice.
#[expect(clippy::too_many_arguments, reason = "what an event is made of")]
fn add_named<'w>(
    pending: &Pending<'w>,
    state: &'w State,
    drafts: &mut Drafts<'w>,
    event: &TrackEvent<'w>,
    phase: u8,
    (pid, tid): (Text<'w>, Text<'w>),
    Times { ts_ns, dur_ns }: Times,
    id: Option<Text<'w>>,
    begins: Option<u64>,
) -> Result<(), Malformed> {
    let interned = state.interned(pending);
    let name = event.name.or_else(|| {
        let iid = event.name_iid?;
        let name = interned.names.get(&iid);
        if name.is_none() {
            drafts.issues.add(Issue::MissingDeclaration);
        }
        name.map(|name| &**name)
    });
    let mut category = category(event, interned, drafts)?;
    let first_arg = drafts.args.len();
    let annotations = std::mem::take(&mut drafts.annotations);
    let added = annotations.iter().try_for_each(|bytes| annotations::add(bytes, interned, drafts));
    drafts.annotations = annotations;
    if added.is_err() {
        // Keep the event; otherwise its end would close another slice.
        drafts.issues.add(Issue::MalformedPacket);
    }
    if let Some(role) = category.and_then(rocprof::role) {
        category = Some(role.category());
        let track = state.tracks.get(event.track).map_or(&b""[..], |track| &track.name);
        rocprof::adapt(role, name.unwrap_or_default(), track, first_arg, drafts);
    }
    if let Some(track) = begins {
        let number = drafts.next_event();
        drafts.marks.push(Mark::begin(track, ts_ns, number));
    }
    drafts.push(Draft { phase, category, name, pid, tid, ts_ns, dur_ns, id, first_arg });
    Ok(())
}

/// Returns the category of an event: its stated category, or the category that its arguments imply.
fn category<'w>(
    event: &TrackEvent<'w>,
    interned: &'w Interned,
    drafts: &mut Drafts<'w>,
) -> Result<Option<&'w [u8]>, Malformed> {
    if let Some(iid) = event.category_iid.filter(|_| event.category.is_none()) {
        let category = interned.categories.get(&iid).map(|category| &**category);
        if category.is_none() {
            drafts.issues.add(Issue::MissingDeclaration);
        }
        return Ok(category);
    }
    if event.category.is_none() {
        for &annotation in &drafts.annotations {
            if annotations::name(annotation, interned)? == Some(SYNC_KIND) {
                return Ok(Some(b"cuda_sync"));
            }
        }
    }
    Ok(event.category)
}

/// Adds a sample of the counter of a track.
fn add_sample<'w>(event: &TrackEvent<'w>, ts_ns: i64, state: &'w State, drafts: &mut Drafts<'w>) {
    let track = state.tracks.get(event.track);
    let counter = track.and_then(|track| track.counter).unwrap_or_default();
    let Some(sample) = event.sample.filter(|_| !counter.is_incremental) else {
        drafts.issues.add(Issue::IncrementalCounter);
        return;
    };
    let (pid, tid) = lane(event.track, state, drafts);
    let first_arg = drafts.args.len();
    let unit = counter.unit_multiplier.max(1);
    drafts.add_arg(Key::Other(Text::Stored(b"")), |text| match sample {
        Sample::Integer(value) => push_integer(text, value.saturating_mul(unit)),
        Sample::Decimal(value) => push_decimal(text, value * unit as f64),
    });
    drafts.push(Draft {
        phase: b'C',
        category: None,
        name: track.map(|track| &*track.name),
        pid,
        tid,
        ts_ns,
        dur_ns: None,
        id: None,
        first_arg,
    });
}

/// Adds a Chrome trace event that a track event carries.
fn add_legacy<'w>(
    pending: &Pending<'w>,
    state: &'w State,
    drafts: &mut Drafts<'w>,
    mut event: TrackEvent<'w>,
    legacy: &[u8],
) -> Result<(), Malformed> {
    let legacy = LegacyEvent::decode(legacy).map_err(|_| Malformed)?;
    let phase = u8::try_from(legacy.phase).unwrap_or(0);
    event.name_iid = event.name_iid.or(legacy.name_iid);
    let ts_ns = pending.ts_ns;
    let track = match (legacy.pid, legacy.tid) {
        (None, None) => event.track,
        (pid, tid) => {
            let number = |part: Option<i32>| u64::from(part.unwrap_or(0) as u32);
            FIRST_LEGACY_TRACK | (number(pid) << 30) ^ number(tid)
        }
    };
    if phase == b'E' {
        drafts.marks.push(Mark::end(track, ts_ns));
        return Ok(());
    }
    let lane = legacy_lane(&legacy, event.track, state, drafts);
    let begins = (phase == b'B').then_some(track);
    let (phase, dur_ns) = match phase {
        b'B' => (b'X', Some(0)),
        b'X' => (b'X', legacy.duration_us.map(|us| us.saturating_mul(1000))),
        _ => (phase, None),
    };
    let id = match (legacy.bind_id.or(legacy.unscoped_id).or(legacy.global_id), legacy.local_id) {
        (Some(id), _) => Some(drafts.made(|text| push_natural(text, id))),
        (None, Some(id)) => {
            let mut local = b"local ".to_vec();
            push_natural(&mut local, id);
            Some(drafts.made(|text| push_string(text, &local)))
        }
        (None, None) => None,
    };
    let times = Times { ts_ns, dur_ns };
    add_named(pending, state, drafts, &event, phase, lane, times, id.map(Text::Made), begins)
}

/// Returns the process and thread that a legacy event states, or the process and thread of its track.
fn legacy_lane<'w>(
    legacy: &LegacyEvent,
    track: u64,
    state: &'w State,
    drafts: &mut Drafts<'w>,
) -> (Text<'w>, Text<'w>) {
    let (mut pid, mut tid) = match (legacy.pid, legacy.tid) {
        (Some(_), Some(_)) => (Text::Stored(b""), Text::Stored(b"")),
        _ => lane(track, state, drafts),
    };
    let mut made = |number: i32| Text::Made(drafts.made(|text| push_integer(text, number.into())));
    if let Some(number) = legacy.pid {
        pid = made(number);
    }
    if let Some(number) = legacy.tid {
        tid = made(number);
    }
    (pid, tid)
}
