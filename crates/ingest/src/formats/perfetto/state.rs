//! The texts, tracks and clocks that packets declare, and that later packets refer to.

use prost::Message;
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::clocks::Clocks;
use super::interned::{ENTRY_BYTES, Interned, InternedPool};
use super::schema::{
    ClockSnapshot, GpuCounters, PacketDefaults, ThreadDescriptor, TrackDescriptor,
};
use super::tracks::Tracks;
use super::wire::{Fields, Malformed, Value};
use crate::warnings::{Issue, Issues};

/// Maximum sequences per file. A sequence contains the packets that one thread of a program writes.
const MAX_SEQUENCES: usize = 1 << 16;
/// Maximum bytes of tracks, of their lanes, and of counters that packets declare without interning them.
const MAX_DECLARED_BYTES: usize = 256 << 20;

/// Flag of a packet that clears the state of its sequence.
const STATE_CLEARED: u64 = 1;
/// Flag of a packet that refers to the interned data of its sequence.
const NEEDS_STATE: u64 = 2;

/// First uuid of thread tracks that are declared for a sequence.
const FIRST_THREAD_TRACK: u64 = 1 << 63;

/// A sequence of packets.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    /// Place of the sequence's interned data.
    interned: usize,
    /// No packet was lost since the state of the sequence was last cleared.
    is_complete: bool,
    default_clock: Option<u32>,
    default_track: u64,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Track,
    RenderStage,
    GpuCounters,
}

/// An event that waits to be converted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending<'w> {
    pub(super) kind: EventKind,
    /// The message of the event.
    pub(super) message: &'w [u8],
    /// Time relative to [`State::origin_ns`].
    pub(super) ts_ns: i64,
    /// Place of the interned data that the event refers to.
    pub(super) interned: usize,
    pub(super) default_track: u64,
}

/// All declarations so far.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tracks: Tracks,
    pub(super) clocks: Clocks,
    sequences: FxHashMap<u32, Sequence>,
    pub(super) interned: InternedPool,
    /// Bytes left for tracks, lanes and counters.
    room: Budget,
    /// Names of counters by GPU and number, for counters that packets declare without interning them.
    pub(super) inline_counters: FxHashMap<(i32, u32), Box<[u8]>>,
    /// Time of the first event on the trace clock. Other times are relative to it.
    pub(super) origin_ns: Option<i64>,
    pub(super) issues: Issues,
}

/// The fields of a packet that are used.
#[derive(Default)]
pub(super) struct Packet<'w> {
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
    /// Compressed packets. A packet with this field has no other content.
    pub(super) compressed: Option<&'w [u8]>,
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
            interned: InternedPool::default(),
            room: Budget::new(MAX_DECLARED_BYTES),
            inline_counters: FxHashMap::default(),
            origin_ns: None,
            issues: Issues::default(),
        }
    }

    /// Reads the fields of a packet.
    pub(super) fn parse<'w>(&mut self, bytes: &'w [u8]) -> Option<Packet<'w>> {
        let packet = Packet::read(bytes);
        if packet.is_err() {
            self.issues.add(Issue::MalformedPacket);
        }
        packet.ok()
    }

    /// Stores the declarations of a packet, and returns its event. The packet must not contain compressed packets.
    pub(super) fn add<'w>(&mut self, packet: &Packet<'w>) -> Option<Pending<'w>> {
        self.apply(packet).unwrap_or_else(|Malformed| {
            self.issues.add(Issue::MalformedPacket);
            None
        })
    }

    /// Returns the interned data that a pending event refers to.
    pub(super) fn interned(&self, event: &Pending<'_>) -> &Interned {
        self.interned.get(event.interned)
    }

    /// Assigns lanes to new tracks. Must be called before the events of these tracks are converted.
    pub(super) fn place_tracks(&mut self) {
        let dropped = self.tracks.place_new(&mut self.room);
        self.issues.add_many(Issue::ManyDeclarations, dropped);
    }

    fn apply<'w>(&mut self, packet: &Packet<'w>) -> Result<Option<Pending<'w>>, Malformed> {
        if packet.is_zstd {
            self.issues.add(Issue::ZstdPackets);
            return Ok(None);
        }
        if !self.has_sequence(packet.sequence) {
            self.issues.add(Issue::ManyDeclarations);
            return Ok(None);
        }
        let updated = self.update_sequence(packet);
        let Some(mut sequence) = self.sequences.get(&packet.sequence).copied() else {
            return Ok(None);
        };
        // Packets without an event, or with an event that cannot be read, also advance clocks that count from the previous packet.
        let time_ns = self.time_ns(packet, &sequence);
        updated?;
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
            sequence.default_track = uuid;
            self.sequences.insert(packet.sequence, sequence);
        }
        let Some((kind, message)) = packet.event else { return Ok(None) };
        match time_ns {
            Ok(ns) => self.event(kind, message, ns, &sequence),
            Err(issue) => {
                self.issues.add(issue);
                Ok(None)
            }
        }
    }

    /// Returns the time of a packet on the trace clock, or the issue if it has none. Must be called once per packet.
    fn time_ns(&mut self, packet: &Packet<'_>, sequence: &Sequence) -> Result<i64, Issue> {
        if packet.flags & NEEDS_STATE != 0 && !sequence.is_complete {
            return Err(Issue::LostPackets);
        }
        // As in Perfetto, the timestamp of a clock snapshot is ignored.
        let is_snapshot = packet.clocks.is_some() && packet.event.is_none();
        let timestamp = packet.timestamp.filter(|_| !is_snapshot).ok_or(Issue::BadTime)?;
        let clock = packet.clock.or(sequence.default_clock);
        self.clocks.trace_ns(packet.sequence, clock, timestamp).ok_or(Issue::UnknownClock)
    }

    fn has_sequence(&mut self, number: u32) -> bool {
        if self.sequences.contains_key(&number) {
            return true;
        }
        if self.sequences.len() >= MAX_SEQUENCES {
            return false;
        }
        let sequence = Sequence {
            interned: self.interned.new_place(),
            is_complete: false,
            default_clock: None,
            default_track: 0,
        };
        self.sequences.insert(number, sequence);
        true
    }

    /// Updates the state of a sequence from a packet: losses, defaults, interned data and clocks.
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
            sequence.interned = self.interned.clear(sequence.interned);
        }
        if let Some(message) = packet.defaults {
            let defaults: PacketDefaults = decode(message)?;
            sequence.default_clock = defaults.clock.or(sequence.default_clock);
            let track = defaults.track_event.and_then(|defaults| defaults.track);
            sequence.default_track = track.unwrap_or(sequence.default_track);
        }
        let interned = sequence.interned;
        if let Some(message) = packet.interned {
            let dropped = self.interned.intern(interned, decode(message)?);
            self.issues.add_many(Issue::ManyDeclarations, dropped);
        }
        if let Some(message) = packet.clocks {
            let snapshot: ClockSnapshot = decode(message)?;
            self.clocks.add(packet.sequence, &snapshot, &mut self.issues);
        }
        Ok(())
    }

    fn add_track(&mut self, descriptor: TrackDescriptor) {
        if !self.tracks.add(descriptor, &mut self.room) {
            self.issues.add(Issue::ManyDeclarations);
        }
    }

    /// Returns the event of a packet. `ns` is its time on the trace clock.
    fn event<'w>(
        &mut self,
        kind: EventKind,
        message: &'w [u8],
        ns: i64,
        sequence: &Sequence,
    ) -> Result<Option<Pending<'w>>, Malformed> {
        let origin_ns = *self.origin_ns.get_or_insert(ns);
        let Some(ts_ns) = ns.checked_sub(origin_ns) else {
            self.issues.add(Issue::BadTime);
            return Ok(None);
        };
        if kind == EventKind::GpuCounters {
            self.declare_inline_counters(message)?;
        }
        let &Sequence { interned, default_track, .. } = sequence;
        self.interned.keep(interned);
        Ok(Some(Pending { kind, message, ts_ns, interned, default_track }))
    }

    /// Stores the counters that an event declares. Counters may be declared in the event with their first sample.
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
            if !self.room.take(spec.name.len() + ENTRY_BYTES) {
                self.issues.add(Issue::ManyDeclarations);
                continue;
            }
            let counter = (gpu, spec.counter);
            if let Some(old) = self.inline_counters.insert(counter, spec.name.into_boxed_slice()) {
                self.room.give_back(old.len() + ENTRY_BYTES);
            }
        }
        Ok(())
    }
}

fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Malformed> {
    M::decode(message).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::perfetto::schema::GpuCounterSpec;

    #[test]
    fn counters_that_are_not_interned_share_the_room_of_tracks() {
        let mut state = State { room: Budget::new(1000), ..State::new() };
        let mut declare = |counter| {
            let spec = GpuCounterSpec { counter, name: vec![b'a'; 100] };
            let descriptor = GpuCounters { specs: vec![spec] }.encode_to_vec();
            let message = [&[0x0a, descriptor.len() as u8][..], &descriptor].concat();
            state.declare_inline_counters(&message).unwrap();
            (state.inline_counters.len(), state.issues.warnings("").len())
        };
        for _ in 0..100 {
            assert_eq!(declare(1), (1, 0), "the name before makes room");
        }
        for counter in 2..7 {
            declare(counter);
        }
        assert_eq!(declare(7), (6, 1));
        state.add_track(TrackDescriptor { name: Some(vec![b'a'; 200]), ..Default::default() });
        assert!(state.tracks.get(0).is_none());
    }
}
