//! The keys that memory snapshots use, in all their versions.

use trace_model::{StrId, Strings};

use crate::formats::pickle::{Graph, Kind, ObjectId, Value};
use crate::quantity::RawInteger;

macro_rules! keys {
    ($($variant:ident = $text:literal,)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Key { $($variant,)+ }

        const KEYS: &[(&str, Key)] = &[$(($text, Key::$variant),)+];
    };
}

keys! {
    Action = "action",
    ActiveSize = "active_size",
    Addr = "addr",
    Address = "address",
    AllocatedSize = "allocated_size",
    AllocatorSettings = "allocator_settings",
    Blocks = "blocks",
    Category = "category",
    Device = "device",
    DeviceFree = "device_free",
    DeviceTraces = "device_traces",
    Filename = "filename",
    Frames = "frames",
    History = "history",
    IsExpandable = "is_expandable",
    Line = "line",
    Name = "name",
    RealSize = "real_size",
    RequestedSize = "requested_size",
    SegmentPoolId = "segment_pool_id",
    SegmentType = "segment_type",
    Segments = "segments",
    Size = "size",
    State = "state",
    Stream = "stream",
    TimeUs = "time_us",
    TotalSize = "total_size",
}

/// The strings of a pickle that are known keys.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Option<Key>>);

impl Keys {
    pub(super) fn new(strings: &Strings) -> Self {
        let mut keys = vec![None; strings.len()];
        for &(text, key) in KEYS {
            if let Some(id) = strings.find(text) {
                keys[id.index()] = Some(key);
            }
        }
        Self(keys)
    }
}

/// The values of one dict by key, and what else it holds.
#[derive(Debug)]
pub(super) struct Entry {
    values: [Value; KEYS.len()],
    /// Keys that we do not know, with their values.
    pub(super) others: Vec<(StrId, Value)>,
}

impl Entry {
    pub(super) fn new() -> Self {
        Self { values: [Value::None; KEYS.len()], others: Vec::new() }
    }

    /// Reads a dict. Returns false if the value is not a dict.
    pub(super) fn read(&mut self, graph: &Graph, keys: &Keys, value: Value) -> bool {
        self.values.fill(Value::None);
        self.others.clear();
        let Value::Object(dict) = value else { return false };
        if graph.kind(dict) != Kind::Dict {
            return false;
        }
        for (id, value) in graph.entries(dict) {
            match keys.0.get(id.index()) {
                Some(&Some(key)) => self.values[key as usize] = value,
                _ => self.others.push((id, value)),
            }
        }
        true
    }

    pub(super) fn get(&self, key: Key) -> Value {
        self.values[key as usize]
    }

    pub(super) fn integer(&self, key: Key) -> Option<RawInteger> {
        match self.get(key) {
            Value::Int(value) => Some(RawInteger::new(value)),
            _ => None,
        }
    }

    /// An address or a stream.
    pub(super) fn id(&self, key: Key) -> Option<i64> {
        self.integer(key)?.id()
    }

    pub(super) fn bytes(&self, key: Key) -> Option<i64> {
        self.integer(key)?.bytes()
    }

    pub(super) fn str(&self, key: Key) -> StrId {
        match self.get(key) {
            Value::Str(id) => id,
            _ => StrId::NULL,
        }
    }

    pub(super) fn list(&self, graph: &Graph, key: Key) -> Option<ObjectId> {
        as_list(graph, self.get(key))
    }
}

/// A list or tuple.
pub(super) fn as_list(graph: &Graph, value: Value) -> Option<ObjectId> {
    match value {
        Value::Object(object) if matches!(graph.kind(object), Kind::List | Kind::Tuple) => {
            Some(object)
        }
        _ => None,
    }
}
