//! Events become rows: one slice of the text fills its own columns. Which table an event goes to is
//! decided here; what a row is made of, in `event_to_row.rs`.

use std::borrow::Cow;

use memchr::memmem;
use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::TableId;

use super::arg::Arg;
use super::classify::{Kind, classify, is_annotation_name, is_sync_in_kernels};
use super::event::Event;
use super::legacy_names::modern_name;
use crate::json::canonical::canonical;
use crate::json::lexer::RawStr;
use crate::json::{number, time};
use crate::quantity::{RawDecimal, RawInteger};
use crate::timeline::columns::Columns;
use crate::timeline::copy_name;
use crate::timeline::graph_marks::{fields_in, module_in};
use crate::timeline::kernel_name::KernelName;
use crate::warnings::Issue;

/// Processes of the profiler of `torch.autograd` before torch 1.8, as `pid` in JSON.
pub(crate) const LEGACY_HOST: &[u8] = b"\"CPU functions\"";
pub(crate) const LEGACY_DEVICE: &[u8] = b"\"CUDA functions\"";

/// Fills [`Columns`] from the events of a slice, then of the same slice of the next window: what it learned of
/// names and threads stays.
pub(crate) struct EventSink {
    pub(crate) columns: Columns,
    /// Strings whose text differs from the bytes in the file (escapes, invalid UTF-8): those without escapes first.
    unescaped: [FxHashMap<Box<[u8]>, StrId>; 2],
    lanes: FxHashMap<(StrId, StrId), i32>,
    last_lane: Option<LastLane>,
    kinds: FxHashMap<StrId, Kind>,
    annotation_names: FxHashMap<StrId, bool>,
    modern_names: FxHashMap<StrId, StrId>,
    kernels: FxHashMap<StrId, KernelName>,
    /// Full names of copies by their direction, source and target kinds.
    copy_names: FxHashMap<[StrId; 3], StrId>,
    /// Full names of fills by their kind of memory.
    fill_names: FxHashMap<StrId, StrId>,
    /// Modules by the marks of graph nodes.
    marked_modules: FxHashMap<StrId, StrId>,
    extents: FxHashMap<Box<[u8]>, Extent>,
    counts: Vec<(CountKey, i64)>,
}

/// Phase, category and table of events that are counted together.
type CountKey = (u8, StrId, Option<TableId>);

/// A grid or a block: its numbers as text, and their product.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) shape: StrId,
    pub(super) product: i64,
}

/// Process and thread of the event before, as written, and their lane.
struct LastLane {
    pid: Vec<u8>,
    tid: Vec<u8>,
    lane: i32,
}

/// Fields of all events with a time.
pub(super) struct EventHeader {
    pub(super) event_id: i64,
    pub(super) name: StrId,
    pub(super) category: StrId,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) thread: i32,
}

impl EventSink {
    pub(crate) fn new() -> Self {
        Self {
            columns: Columns::default(),
            unescaped: Default::default(),
            lanes: FxHashMap::default(),
            last_lane: None,
            kinds: FxHashMap::default(),
            annotation_names: FxHashMap::default(),
            modern_names: FxHashMap::default(),
            kernels: FxHashMap::default(),
            copy_names: FxHashMap::default(),
            fill_names: FxHashMap::default(),
            marked_modules: FxHashMap::default(),
            extents: FxHashMap::default(),
            counts: Vec::new(),
        }
    }

    /// To be called after the last event of a slice.
    pub(crate) fn finish_slice(&mut self) {
        for (key, count) in self.counts.drain(..) {
            *self.columns.counts.entry(key).or_default() += count;
        }
    }

    /// Adds one event.
    pub(crate) fn add(&mut self, event: &Event<'_>) {
        let event_id = self.columns.events;
        self.columns.events += 1;
        let category = self.intern_opt(event.category);
        let table = match event.phase {
            b'X' => self.complete(event, event_id, category),
            b's' | b't' | b'f' => self.flow(event, event_id, category),
            b'i' | b'I' | b'R' | b'n' => self.instant(event, event_id, category),
            b'C' => self.counter(event, event_id),
            b'B' | b'E' | b'b' | b'e' | b'S' | b'F' => self.begin_or_end(event, event_id, category),
            b'M' => {
                self.label(event);
                Some(TableId::Threads)
            }
            _ => {
                self.columns.issues.add(Issue::UnknownPhase);
                None
            }
        };
        self.count_event((event.phase, category, table));
    }

    /// Counts an event. A recording has few keys: searching all of them is faster than a hash.
    fn count_event(&mut self, key: CountKey) {
        match self.counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((key, 1)),
        }
    }

    /// Counts an entry of the event list that is not an event.
    pub(crate) fn add_issue(&mut self, issue: Issue) {
        self.columns.events += 1;
        self.columns.issues.add(issue);
    }

    pub(super) fn complete(
        &mut self,
        event: &Event<'_>,
        event_id: i64,
        category: StrId,
    ) -> Option<TableId> {
        // Cuspy writes the marks of a node as text, including marks that describe a collective.
        if let Some(marks) = event.args.get(Arg::Annotation)
            && memmem::find(marks, b"Collective name").is_some()
        {
            let fields = fields_in(&decoded(marks));
            return self.complete(&event.with_marks(&fields), event_id, category);
        }
        let Some(dur) = event.dur else {
            self.columns.issues.add(Issue::MissingDuration);
            return None;
        };
        let (Some(ts_ns), Some(dur_ns)) =
            (event.ts.and_then(time::time_ns), time::duration_ns(dur))
        else {
            self.columns.issues.add(Issue::BadTime);
            return None;
        };
        if dur_ns < 0 {
            self.columns.issues.add(Issue::NegativeDuration);
            return None;
        }
        let mut name = self.intern_opt(event.name);
        if category.is_null() && [LEGACY_HOST, LEGACY_DEVICE].contains(&event.pid) {
            name = self.modern_name(name);
        }
        let base = EventHeader {
            event_id,
            name,
            category,
            ts_ns,
            dur_ns,
            thread: self.lane(event.pid, event.tid),
        };
        let kind = if category.is_null() {
            self.kind_of_legacy(event.pid, name)
        } else {
            self.kind(category, name)
        };
        if event.args.get(Arg::CollectiveName).is_some() {
            self.collective(event, &base, kind);
        }
        Some(match kind {
            Kind::CpuOp => self.cpu_op(event, &base),
            Kind::RuntimeCall => self.runtime_call(event, &base),
            Kind::Annotation => self.annotation(event, &base, false),
            Kind::DeviceAnnotation => self.annotation(event, &base, true),
            Kind::PythonFrame => self.python_frame(event, &base),
            Kind::Kernel => self.kernel(event, &base),
            Kind::Memcpy => self.memcpy(event, &base),
            Kind::Memset => self.memset(event, &base),
            Kind::DeviceSync => self.device_sync(event, &base),
            Kind::ProfilerRange => self.profiler_range(event, &base),
            Kind::Span => self.span(event, &base),
        })
    }

    /// Start of an event without duration.
    pub(super) fn point(&mut self, event: &Event<'_>) -> Option<i64> {
        let ts_ns = event.ts.and_then(time::time_ns);
        if ts_ns.is_none() {
            self.columns.issues.add(Issue::BadTime);
        }
        ts_ns
    }

    /// The kind that a category stands for, whatever the event is called.
    pub(super) fn category_kind(&mut self, category: StrId) -> Kind {
        let strings = &self.columns.strings;
        *self.kinds.entry(category).or_insert_with(|| classify(strings.get(category)))
    }

    pub(super) fn kind(&mut self, category: StrId, name: StrId) -> Kind {
        let kind = self.category_kind(category);
        let strings = &self.columns.strings;
        if kind == Kind::CpuOp
            && *self
                .annotation_names
                .entry(name)
                .or_insert_with(|| is_annotation_name(strings.get(name)))
        {
            return Kind::Annotation;
        }
        if kind == Kind::Kernel && is_sync_in_kernels(strings.get(category), strings.get(name)) {
            return Kind::DeviceSync;
        }
        kind
    }

    /// The kind of an event without a category: the profiler of `torch.autograd` before 1.8 tells operators from device
    /// activities by process.
    fn kind_of_legacy(&mut self, pid: &[u8], name: StrId) -> Kind {
        match pid {
            LEGACY_HOST => {
                let category = self.columns.strings.intern("cpu_op");
                self.kind(category, name)
            }
            // Ranges of operators among them are told from kernels when their operators are known.
            LEGACY_DEVICE => Kind::Kernel,
            _ => Kind::Span,
        }
    }

    /// The name of an operator as later versions write it.
    fn modern_name(&mut self, name: StrId) -> StrId {
        let strings = &mut self.columns.strings;
        *self.modern_names.entry(name).or_insert_with(|| match modern_name(strings.get(name)) {
            Some(modern) => strings.intern(&modern),
            None => name,
        })
    }

    /// What the name of a kernel says about it; each name is judged once.
    pub(super) fn kernel_name(&mut self, name: StrId) -> KernelName {
        let strings = &mut self.columns.strings;
        *self.kernels.entry(name).or_insert_with(|| KernelName::of(name, strings))
    }

    /// Device: from the arguments, else `pid`.
    pub(super) fn device(&mut self, event: &Event<'_>) -> i32 {
        match self.number(event, Arg::Device) {
            NULL_I32 if event.pid == LEGACY_DEVICE => lane_number(event.tid),
            NULL_I32 => lane_number(event.pid),
            device => device,
        }
    }

    /// Returns Kineto's name of a copy. Cuspy calls all copies `Memcpy` and states direction and memory in arguments. Returns `None`
    /// if the name in the trace is complete.
    pub(super) fn copy_name(
        &mut self,
        event: &Event<'_>,
        name: StrId,
        kinds: [Arg; 3],
    ) -> Option<StrId> {
        event.args.get(Arg::CopyKind)?;
        if self.columns.strings.get(name) != "Memcpy" {
            return None;
        }
        let kinds = kinds.map(|arg| self.text(event, arg));
        let strings = &mut self.columns.strings;
        Some(*self.copy_names.entry(kinds).or_insert_with(|| {
            let [copy, source, target] = kinds.map(|kind| strings.get(kind));
            let name = copy_name::copy_name(copy, source, target);
            strings.intern(&name)
        }))
    }

    /// Returns Kineto's name of a fill, like [`Self::copy_name`]. Cuspy calls all fills `Memset`.
    pub(super) fn fill_name(&mut self, event: &Event<'_>, name: StrId) -> Option<StrId> {
        event.args.get(Arg::MemoryKind)?;
        if self.columns.strings.get(name) != "Memset" {
            return None;
        }
        let kind = self.text(event, Arg::MemoryKind);
        let strings = &mut self.columns.strings;
        Some(*self.fill_names.entry(kind).or_insert_with(|| {
            let name = copy_name::fill_name(strings.get(kind));
            strings.intern(&name)
        }))
    }

    /// Returns the module with which the program marked a graph node. Kineto writes the fields of a mark as arguments; Cuspy writes
    /// the list of all marks of the node as text.
    pub(super) fn marked_module(&mut self, event: &Event<'_>) -> StrId {
        if event.args.get(Arg::ModuleFqn).is_some() {
            return self.text(event, Arg::ModuleFqn);
        }
        if event.args.get(Arg::Annotation).is_none() {
            return StrId::NULL;
        }
        let marks = self.text(event, Arg::Annotation);
        let strings = &mut self.columns.strings;
        *self.marked_modules.entry(marks).or_insert_with(|| {
            let module = module_in(strings.get(marks));
            module.map_or(StrId::NULL, |module| strings.intern(&module))
        })
    }

    /// Device and stream: from the arguments, else from the lane (`pid` is the device and `tid` the
    /// stream on device rows). Graph nodes may be drawn on separate lanes (`graph_lanes`); they keep the stream that they
    /// ran on.
    pub(super) fn placement(&mut self, event: &Event<'_>) -> (i32, i32) {
        let device = self.device(event);
        let arg = match event.args.get(Arg::OriginalStream) {
            Some(_) => Arg::OriginalStream,
            None => Arg::Stream,
        };
        let stream = match self.number(event, arg) {
            // Streams are not told apart there.
            NULL_I32 if event.pid == LEGACY_DEVICE => 0,
            NULL_I32 => lane_number(event.tid),
            stream => stream,
        };
        (device, stream)
    }

    #[inline]
    pub(super) fn lane(&mut self, pid: &[u8], tid: &[u8]) -> i32 {
        if let Some(last) = &self.last_lane
            && last.pid == pid
            && last.tid == tid
        {
            return last.lane;
        }
        // "7" and 7 are the same lane.
        let key = (self.intern_value(pid), self.intern_value(tid));
        let lanes = &mut self.columns.lanes;
        let lane = *self.lanes.entry(key).or_insert_with(|| {
            lanes.push(key);
            lanes.len() as i32 - 1
        });
        let last =
            self.last_lane.get_or_insert(LastLane { pid: Vec::new(), tid: Vec::new(), lane });
        last.pid.clear();
        last.pid.extend_from_slice(pid);
        last.tid.clear();
        last.tid.extend_from_slice(tid);
        last.lane = lane;
        lane
    }

    pub(super) fn id(&mut self, event: &Event<'_>, arg: Arg) -> i64 {
        self.integer(event, arg, RawInteger::id).unwrap_or(NULL_I64)
    }

    pub(super) fn count(&mut self, event: &Event<'_>, arg: Arg) -> i64 {
        self.integer(event, arg, RawInteger::count).unwrap_or(NULL_I64)
    }

    pub(super) fn bytes(&mut self, event: &Event<'_>, arg: Arg) -> i64 {
        self.integer(event, arg, RawInteger::bytes).unwrap_or(NULL_I64)
    }

    /// A device, a stream, or another number of 32 bits.
    pub(super) fn number(&mut self, event: &Event<'_>, arg: Arg) -> i32 {
        // CUPTI writes "no stream" as 2^32 - 1.
        const NO_STREAM: RawInteger = RawInteger::new(0xFFFF_FFFF);
        let convert =
            |raw: RawInteger| if raw == NO_STREAM { Some(NULL_I32) } else { raw.number() };
        self.integer(event, arg, convert).unwrap_or(NULL_I32)
    }

    /// An integer argument; `None` if it is missing, or not within the bounds of its kind, which is counted.
    pub(super) fn integer<T>(
        &mut self,
        event: &Event<'_>,
        arg: Arg,
        convert: impl FnOnce(RawInteger) -> Option<T>,
    ) -> Option<T> {
        let raw = event.args.get(arg).filter(|raw| *raw != b"null")?;
        self.converted(number::integer(raw), convert)
    }

    /// Like [`Self::integer`], for decimal numbers.
    pub(super) fn decimal(
        &mut self,
        event: &Event<'_>,
        arg: Arg,
        convert: impl FnOnce(RawDecimal) -> Option<f64>,
    ) -> f64 {
        let raw = event.args.get(arg);
        raw.and_then(|raw| self.converted(number::decimal(raw), convert)).unwrap_or(f64::NAN)
    }

    pub(super) fn converted<R, T>(
        &mut self,
        raw: Option<R>,
        convert: impl FnOnce(R) -> Option<T>,
    ) -> Option<T> {
        let issue = if raw.is_some() { Issue::NumberOutOfBounds } else { Issue::BadNumber };
        let value = raw.and_then(convert);
        if value.is_none() {
            self.columns.issues.add(issue);
        }
        value
    }

    /// A grid or a block, worked out once for each that is written.
    pub(super) fn extent(&mut self, event: &Event<'_>, arg: Arg) -> Extent {
        let Some(raw) = event.args.get(arg) else {
            return Extent { shape: StrId::NULL, product: NULL_I64 };
        };
        let extent = if let Some(&known) = self.extents.get(raw) {
            known
        } else {
            let shape = shape(raw).map_or(StrId::NULL, |text| self.columns.strings.intern(&text));
            let product = product(raw).and_then(|product| RawInteger::new(product).count());
            let new = Extent { shape, product: product.unwrap_or(NULL_I64) };
            self.extents.insert(raw.into(), new);
            new
        };
        if extent.product == NULL_I64 {
            self.columns.issues.add(Issue::BadNumber);
        }
        extent
    }

    pub(super) fn stack(&mut self, event: &Event<'_>) -> StrId {
        let stack = self.text(event, Arg::CallStack);
        if self.columns.strings.get(stack).is_empty() {
            return StrId::NULL;
        }
        self.columns.has_stacks = true;
        stack
    }

    /// A string argument; other values as their JSON text.
    pub(super) fn text(&mut self, event: &Event<'_>, arg: Arg) -> StrId {
        event.args.get(arg).map_or(StrId::NULL, |raw| self.intern_value(raw))
    }

    /// A list argument as JSON text, the same for all writers.
    pub(super) fn json(&mut self, event: &Event<'_>, arg: Arg) -> StrId {
        let Some(raw) = event.args.get(arg) else { return StrId::NULL };
        self.intern_raw(RawStr { bytes: &canonical(raw), escaped: false })
    }

    pub(super) fn intern_value(&mut self, raw: &[u8]) -> StrId {
        match raw {
            [] | b"null" => StrId::NULL,
            [b'"', inner @ .., b'"'] => self.intern_raw(RawStr::escaped_if_needed(inner)),
            _ => self.intern_raw(RawStr { bytes: raw, escaped: false }),
        }
    }

    pub(super) fn intern_opt(&mut self, raw: Option<RawStr<'_>>) -> StrId {
        raw.map_or(StrId::NULL, |raw| self.intern_raw(raw))
    }

    /// Looks the raw bytes up first: decoding and UTF-8 checks are paid once a distinct string.
    #[inline]
    pub(super) fn intern_raw(&mut self, raw: RawStr<'_>) -> StrId {
        if !raw.escaped
            && let Some(id) = self.columns.strings.find(raw.bytes)
        {
            return id;
        }
        self.intern_new(raw)
    }

    fn intern_new(&mut self, raw: RawStr<'_>) -> StrId {
        let unescaped = &mut self.unescaped[usize::from(raw.escaped)];
        if let Some(&id) = unescaped.get(raw.bytes) {
            return id;
        }
        let (text, bad) = raw.decode();
        if bad {
            self.columns.issues.add(Issue::BadUtf8);
        }
        let id = self.columns.strings.intern(&text);
        if bad || raw.escaped {
            unescaped.insert(raw.bytes.into(), id);
        }
        id
    }
}

/// Returns the text of a JSON string, or the JSON text of another value.
fn decoded(raw: &[u8]) -> Cow<'_, str> {
    match raw {
        [b'"', inner @ .., b'"'] => RawStr::escaped_if_needed(inner).decode().0,
        _ => String::from_utf8_lossy(raw),
    }
}

/// Product of a list of integers: blocks of a grid, threads of a block.
fn product(raw: &[u8]) -> Option<i64> {
    let inner = raw.strip_prefix(b"\"").and_then(|r| r.strip_suffix(b"\"")).unwrap_or(raw);
    let inner = inner.strip_prefix(b"[").and_then(|r| r.strip_suffix(b"]")).unwrap_or(inner);
    inner.split(|&b| b == b',').try_fold(1_i64, |product, part| {
        product.checked_mul(number::integer(part.trim_ascii())?.count()?)
    })
}

/// A list of numbers as `[8, 1, 1]`, however it was written: over several lines, as a string.
fn shape(raw: &[u8]) -> Option<String> {
    let numbers: Vec<String> = raw
        .split(|b| !b.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| String::from_utf8_lossy(digits).into_owned())
        .collect();
    (!numbers.is_empty()).then(|| format!("[{}]", numbers.join(", ")))
}

/// `0` or `"stream 7"`.
fn lane_number(raw: &[u8]) -> i32 {
    let digits = raw.strip_prefix(b"\"stream ").and_then(|r| r.strip_suffix(b"\"")).unwrap_or(raw);
    number::integer(digits).and_then(RawInteger::number).unwrap_or(NULL_I32)
}
