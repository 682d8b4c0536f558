//! What packets refer to: the texts, tracks and clocks that packets before them declare.

use prost::Message;
use rustc_hash::FxHashMap;

use super::clocks::Clocks;
use super::schema::{
    ClockSnapshot, GpuCounters, InternedData, PacketDefaults, ThreadDescriptor, TrackDescriptor,
};
use super::tracks::Tracks;
use super::wire::{Fields, Malformed, Value};
use crate::warnings::{Issue, Issues};

/// Sequences that are kept. A sequence is what one thread of a program writes.
const MAX_SEQUENCES: usize = 1 << 16;
/// Bytes of interned texts that are kept at a time.
const MAX_INTERNED_BYTES: usize = 256 << 20;
/// Bytes that an entry of a table takes besides its text.
const ENTRY_BYTES: usize = 64;
/// Counters that packets declare without interning them.
const MAX_INLINE_COUNTERS: usize = 1 << 16;

/// Bits of the flags of a packet: its sequence starts to intern anew; it refers to what its sequence interned.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Tracks of threads that are declared for a sequence get numbers from here on.
const FIRST_THREAD_TRACK: u64 = 1 << 63;

/// Interned texts by number.
pub(super) type Texts = FxHashMap<u64, Box<[u8]>>;

/// A queue of a GPU, or a kind of its activities.
#[derive(Debug)]
pub(super) struct Specification {
    pub(super) name: Box<[u8]>,
    pub(super) is_computation: bool,
}

/// Names of the counters of a GPU.
#[derive(Debug)]
pub(super) struct CounterNames {
    pub(super) gpu: i32,
    pub(super) names: FxHashMap<u32, Box<[u8]>>,
}

/// What a sequence has interned since it last began anew.
#[derive(Debug, Default)]
pub(super) struct Interned {
    pub(super) names: Texts,
    pub(super) categories: Texts,
    pub(super) annotation_names: Texts,
    pub(super) strings: Texts,
    pub(super) kernels: Texts,
    pub(super) kernel_args: Texts,
    pub(super) specifications: FxHashMap<u64, Specification>,
    pub(super) counters: FxHashMap<u64, CounterNames>,
    bytes: usize,
    /// Events that wait for their conversion refer to it.
    is_used: bool,
}

/// A sequence of packets.
#[derive(Debug)]
struct Sequence {
    /// Place of its interned data in [`State::interned`].
    interned: usize,
    /// Its packets have been complete since it last began to intern anew.
    is_complete: bool,
    default_clock: Option<u32>,
    default_track: u64,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Track,
    RenderStage,
    GpuCounters,
}

/// An event that waits for its conversion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending<'w> {
    pub(super) kind: EventKind,
    /// Its message.
    pub(super) message: &'w [u8],
    /// Its time after [`State::origin_ns`].
    pub(super) ts_ns: i64,
    /// Place of what it refers to in [`State::interned`].
    pub(super) interned: usize,
    pub(super) default_track: u64,
}

/// What a packet holds besides declarations.
pub(super) enum Content<'w> {
    Nothing,
    Event(Pending<'w>),
    /// Compressed packets.
    Compressed(&'w [u8]),
}

/// The declarations so far.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tracks: Tracks,
    pub(super) clocks: Clocks,
    sequences: FxHashMap<u32, Sequence>,
    pub(super) interned: Vec<Interned>,
    interned_bytes: usize,
    /// Names of counters by GPU and number, where packets declare them without interning them.
    pub(super) inline_counters: FxHashMap<(i32, u32), Box<[u8]>>,
    /// Time of the first event on the trace's own clock: other times are relative to it.
    pub(super) origin_ns: Option<i64>,
    pub(super) issues: Issues,
}

/// The fields of a packet that are used.
#[derive(Default)]
struct Packet<'w> {
    timestamp: Option<u64>,
    clock: Option<u32>,
    sequence: u32,
    flags: u64,
    was_packet_lost: bool,
    is_first: bool,
    interned: Option<&'w [u8]>,
    defaults: Option<&'w [u8]>,
    clocks: Option<&'w [u8]>,
    track: Option<&'w [u8]>,
    thread: Option<&'w [u8]>,
    event: Option<(EventKind, &'w [u8])>,
    compressed: Option<&'w [u8]>,
    is_zstd: bool,
}

impl<'w> Packet<'w> {
    fn read(bytes: &'w [u8]) -> Result<Self, Malformed> {
        let mut packet = Self::default();
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (8, Value::Varint(timestamp)) => packet.timestamp = Some(timestamp),
                (10, Value::Varint(sequence)) => packet.sequence = sequence as u32,
                (13, Value::Varint(flags)) => packet.flags |= flags,
                (58, Value::Varint(clock)) => packet.clock = Some(clock as u32),
                (41, Value::Varint(1)) => packet.flags |= STATE_CLEARED,
                (42, Value::Varint(lost)) => packet.was_packet_lost = lost != 0,
                (87, Value::Varint(first)) => packet.is_first = first != 0,
                (6, Value::Bytes(message)) => packet.clocks = Some(message),
                (11, Value::Bytes(message)) => packet.event = Some((EventKind::Track, message)),
                (12, Value::Bytes(message)) => packet.interned = Some(message),
                (44, Value::Bytes(message)) => packet.thread = Some(message),
                (50, Value::Bytes(bytes)) => packet.compressed = Some(bytes),
                (52, Value::Bytes(message)) => {
                    packet.event = Some((EventKind::GpuCounters, message));
                }
                (53, Value::Bytes(message)) => {
                    packet.event = Some((EventKind::RenderStage, message));
                }
                (59, Value::Bytes(message)) => packet.defaults = Some(message),
                (60, Value::Bytes(message)) => packet.track = Some(message),
                (133, Value::Bytes(_)) => packet.is_zstd = true,
                _ => {}
            }
        }
        Ok(packet)
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            tracks: Tracks::default(),
            clocks: Clocks::new(),
            sequences: FxHashMap::default(),
            interned: Vec::new(),
            interned_bytes: 0,
            inline_counters: FxHashMap::default(),
            origin_ns: None,
            issues: Issues::default(),
        }
    }

    /// Reads a packet: keeps its declarations, and returns its event.
    pub(super) fn read<'w>(&mut self, bytes: &'w [u8]) -> Content<'w> {
        let content = Packet::read(bytes).and_then(|packet| self.apply(&packet));
        content.unwrap_or_else(|Malformed| {
            self.issues.add(Issue::MalformedPacket);
            Content::Nothing
        })
    }

    fn apply<'w>(&mut self, packet: &Packet<'w>) -> Result<Content<'w>, Malformed> {
        if let Some(compressed) = packet.compressed {
            return Ok(Content::Compressed(compressed));
        }
        if packet.is_zstd {
            self.issues.add(Issue::ZstdPackets);
            return Ok(Content::Nothing);
        }
        if !self.has_sequence(packet.sequence) {
            self.issues.add(Issue::ManyDeclarations);
            return Ok(Content::Nothing);
        }
        self.update_sequence(packet)?;
        if let Some(message) = packet.clocks {
            let dropped = self.clocks.add(packet.sequence, &decode::<ClockSnapshot>(message)?);
            self.issues.add_many(Issue::UnknownClock, dropped);
        }
        if let Some(message) = packet.track {
            self.add_track(decode(message)?);
        }
        if let Some(message) = packet.thread {
            let thread: ThreadDescriptor = decode(message)?;
            let uuid = FIRST_THREAD_TRACK | u64::from(packet.sequence);
            self.add_track(TrackDescriptor {
                uuid,
                thread: Some(thread),
                ..TrackDescriptor::default()
            });
            if let Some(sequence) = self.sequences.get_mut(&packet.sequence) {
                sequence.default_track = uuid;
            }
        }
        self.event(packet)
    }

    fn has_sequence(&mut self, number: u32) -> bool {
        if self.sequences.contains_key(&number) {
            return true;
        }
        if self.sequences.len() >= MAX_SEQUENCES {
            return false;
        }
        let sequence = Sequence {
            interned: self.interned.len(),
            is_complete: false,
            default_clock: None,
            default_track: 0,
        };
        self.interned.push(Interned::default());
        self.sequences.insert(number, sequence);
        true
    }

    fn update_sequence(&mut self, packet: &Packet<'_>) -> Result<(), Malformed> {
        let Some(sequence) = self.sequences.get_mut(&packet.sequence) else { return Ok(()) };
        if packet.was_packet_lost {
            sequence.is_complete = false;
            if !packet.is_first && packet.flags & STATE_CLEARED == 0 {
                self.issues.add(Issue::LostPackets);
            }
        }
        if packet.flags & STATE_CLEARED != 0 {
            sequence.is_complete = true;
            (sequence.default_clock, sequence.default_track) = (None, 0);
            let known = &mut self.interned[sequence.interned];
            if known.is_used {
                sequence.interned = self.interned.len();
                self.interned.push(Interned::default());
            } else {
                self.interned_bytes -= known.bytes;
                *known = Interned::default();
            }
        }
        if let Some(message) = packet.defaults {
            let defaults: PacketDefaults = decode(message)?;
            sequence.default_clock = defaults.clock.or(sequence.default_clock);
            let track = defaults.track_event.and_then(|defaults| defaults.track);
            sequence.default_track = track.unwrap_or(sequence.default_track);
        }
        let interned = sequence.interned;
        if let Some(message) = packet.interned {
            self.intern(interned, decode(message)?);
        }
        Ok(())
    }

    fn add_track(&mut self, descriptor: TrackDescriptor) {
        if !self.tracks.add(descriptor) {
            self.issues.add(Issue::ManyDeclarations);
        }
    }

    fn intern(&mut self, at: usize, data: InternedData) {
        let interned = &mut self.interned[at];
        let bytes_before = interned.bytes;
        let room = MAX_INTERNED_BYTES.saturating_sub(self.interned_bytes);
        let mut dropped = 0;
        let mut has_room = |bytes: &mut usize, length: usize| {
            let is_within = *bytes - bytes_before + length + ENTRY_BYTES <= room;
            if is_within {
                *bytes += length + ENTRY_BYTES;
            } else {
                dropped += 1;
            }
            is_within
        };
        macro_rules! add_texts {
            ($($from:ident => $to:ident),+) => { $(
                for entry in data.$from {
                    if has_room(&mut interned.bytes, entry.text.len()) {
                        interned.$to.insert(entry.iid, entry.text.into_boxed_slice());
                    }
                }
            )+ };
        }
        add_texts!(
            event_names => names,
            event_categories => categories,
            annotation_names => annotation_names,
            annotation_strings => strings,
            kernel_arg_names => kernel_args
        );
        for kernel in data.kernels {
            let name =
                if kernel.demangled_name.is_empty() { kernel.name } else { kernel.demangled_name };
            if has_room(&mut interned.bytes, name.len()) {
                interned.kernels.insert(kernel.iid, name.into_boxed_slice());
            }
        }
        for entry in data.gpu_specifications {
            const COMPUTATION: i32 = 2;
            if has_room(&mut interned.bytes, entry.name.len()) {
                let is_computation = entry.category == COMPUTATION;
                let specification =
                    Specification { name: entry.name.into_boxed_slice(), is_computation };
                interned.specifications.insert(entry.iid, specification);
            }
        }
        for entry in data.gpu_counters {
            let mut names = FxHashMap::default();
            for spec in entry.descriptor.unwrap_or_default().specs {
                if has_room(&mut interned.bytes, spec.name.len()) {
                    names.insert(spec.counter, spec.name.into_boxed_slice());
                }
            }
            if has_room(&mut interned.bytes, 0) {
                interned.counters.insert(entry.iid, CounterNames { gpu: entry.gpu, names });
            }
        }
        self.interned_bytes += interned.bytes - bytes_before;
        self.issues.add_many(Issue::ManyDeclarations, dropped);
    }

    fn event<'w>(&mut self, packet: &Packet<'w>) -> Result<Content<'w>, Malformed> {
        let Some((kind, message)) = packet.event else { return Ok(Content::Nothing) };
        let Some(sequence) = self.sequences.get(&packet.sequence) else {
            return Ok(Content::Nothing);
        };
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_complete {
            self.issues.add(Issue::LostPackets);
            return Ok(Content::Nothing);
        }
        let Some(timestamp) = packet.timestamp else {
            self.issues.add(Issue::BadTime);
            return Ok(Content::Nothing);
        };
        let clock = packet.clock.or(sequence.default_clock);
        let Some(ns) = self.clocks.trace_ns(packet.sequence, clock, timestamp) else {
            self.issues.add(Issue::UnknownClock);
            return Ok(Content::Nothing);
        };
        let origin_ns = *self.origin_ns.get_or_insert(ns);
        let Some(ts_ns) = ns.checked_sub(origin_ns) else {
            self.issues.add(Issue::BadTime);
            return Ok(Content::Nothing);
        };
        let (interned, default_track) = (sequence.interned, sequence.default_track);
        if kind == EventKind::GpuCounters {
            self.declare_inline_counters(message)?;
        }
        self.interned[interned].is_used = true;
        Ok(Content::Event(Pending { kind, message, ts_ns, interned, default_track }))
    }

    /// Counters may be declared in the event that holds their first sample.
    fn declare_inline_counters(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut descriptor, mut gpu) = (None, 0);
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(message)) => descriptor = Some(message),
                (3, Value::Varint(number)) => gpu = number as i32,
                _ => {}
            }
        }
        let Some(descriptor) = descriptor else { return Ok(()) };
        for spec in decode::<GpuCounters>(descriptor)?.specs {
            if self.inline_counters.len() >= MAX_INLINE_COUNTERS {
                self.issues.add(Issue::ManyDeclarations);
                break;
            }
            self.inline_counters.insert((gpu, spec.counter), spec.name.into_boxed_slice());
        }
        Ok(())
    }

    /// Drops interned data that no sequence refers to any more. To be called when no event waits for its conversion.
    pub(super) fn settle(&mut self) {
        self.interned.iter_mut().for_each(|interned| interned.is_used = false);
        if self.interned.len() == self.sequences.len() {
            return;
        }
        let mut kept = Vec::with_capacity(self.sequences.len());
        #[expect(clippy::iter_over_hash_type, reason = "places are not shown")]
        for sequence in self.sequences.values_mut() {
            let interned = std::mem::take(&mut self.interned[sequence.interned]);
            sequence.interned = kept.len();
            kept.push(interned);
        }
        self.interned = kept;
        self.interned_bytes = self.interned.iter().map(|interned| interned.bytes).sum();
    }
}

fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Malformed> {
    M::decode(message).map_err(|_| Malformed)
}
