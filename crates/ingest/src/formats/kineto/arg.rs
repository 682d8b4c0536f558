//! The arguments of an event: those with a column of their own by slot, all others as text.

use crate::json::canonical::canonical;

/// Declares the arguments with a slot. Several spellings may share a slot, because profilers renamed arguments over the
/// years and vendors differ.
macro_rules! arg_keys {
    (@first $first:literal $(| $more:literal)*) => { $first };
    ($($key:ident: $($text:literal)|+;)+) => {
        /// An argument with a column of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Arg { $($key,)+ }

        impl Arg {
            const COUNT: usize = Self::KEYS.len();
            /// Each argument with the first of its spellings.
            const KEYS: &[(Self, &[u8])] = &[$((Self::$key, arg_keys!(@first $($text)|+)),)+];

            /// The bit of this argument in a mask.
            pub(crate) const fn bit(self) -> u64 {
                1 << (self as u8)
            }

            /// The argument of this name.
            pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
                match key {
                    $($($text)|+ => Some(Self::$key),)+
                    _ => None,
                }
            }
        }
    };
}

arg_keys! {
    ExternalId: b"External id" | b"external id";
    Correlation: b"correlation";
    Device: b"device";
    Stream: b"stream";
    Bytes: b"bytes" | b"Bytes";
    Bandwidth: b"memory bandwidth (GB/s)";
    Kind: b"kind";
    CopyKind: b"copy kind";
    SourceKind: b"src kind";
    TargetKind: b"dst kind";
    MemoryKind: b"memory kind";
    Grid: b"grid";
    Block: b"block";
    Registers: b"registers per thread";
    SharedMemory: b"shared memory";
    BlocksPerSm: b"blocks per SM";
    WarpsPerSm: b"warps per SM";
    Occupancy: b"est. achieved occupancy %";
    InputDims: b"Input Dims" | b"Input dims";
    InputTypes: b"Input type";
    CallStack: b"Call stack";
    Sequence: b"Sequence number";
    FwdThread: b"Fwd thread id";
    RecordFunctionId: b"Record function id";
    PythonId: b"Python id";
    PythonParentId: b"Python parent id";
    PythonModuleId: b"Python module id";
    TotalAllocated: b"Total Allocated";
    TotalReserved: b"Total Reserved";
    Address: b"Addr";
    DeviceId: b"Device Id";
    DeviceType: b"Device Type";
    CollectiveName: b"Collective name";
    InElements: b"In msg nelems";
    OutElements: b"Out msg nelems";
    GroupSize: b"Group size";
    Dtype: b"dtype";
    GroupName: b"Process Group Name";
    GroupDescription: b"Process Group Description";
    GroupRanks: b"Process Group Ranks";
    CollectiveSequence: b"Seq";
    CommsId: b"Comms Id";
    GraphId: b"graph id";
    GraphNodeId: b"graph node id";
    OriginalStream: b"original_stream";
    ModuleFqn: b"module_fqn";
    Annotation: b"annotation";
    WaitOnStream: b"wait_on_stream";
    WaitOnRecord: b"wait_on_cuda_event_record_corr_id";
}

/// The arguments of one event. Reused from event to event: only the bit set is cleared.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    present: u64,
    slots: [&'a [u8]; Arg::COUNT],
    /// Arguments without a slot, as `(key, value)` text.
    pub(crate) others: Vec<(&'a [u8], &'a [u8])>,
}

const _: () = assert!(Arg::COUNT <= 64, "present is one word");

impl<'a> Args<'a> {
    pub(super) fn new() -> Self {
        Self { present: 0, slots: [b""; Arg::COUNT], others: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.present = 0;
        self.others.clear();
    }

    /// The value as written, if the event has the argument.
    #[inline]
    pub(crate) fn get(&self, arg: Arg) -> Option<&'a [u8]> {
        (self.present & arg.bit() != 0).then(|| self.slots[arg as usize])
    }

    /// Writes the arguments without a column as one JSON object: those without a slot, and those outside `taken`. Writes
    /// nothing if there are none.
    #[inline]
    pub(crate) fn write_rest(&self, taken: u64, out: &mut Vec<u8>) {
        self.write_rest_where(taken, |_| true, out);
    }

    /// The same, of the arguments without a slot only those whose value is `wanted`.
    #[inline]
    pub(crate) fn write_rest_where(
        &self,
        taken: u64,
        wanted: impl Fn(&[u8]) -> bool,
        out: &mut Vec<u8>,
    ) {
        let mut before: &[u8] = b"{\"";
        let mut member = |key: &[u8], value: &[u8]| {
            out.extend_from_slice(std::mem::replace(&mut before, b",\""));
            out.extend_from_slice(key);
            out.extend_from_slice(b"\":");
            out.extend_from_slice(&canonical(value));
        };
        let mut left = self.present & !taken;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            member(Arg::KEYS[slot].1, self.slots[slot]);
        }
        for (key, value) in self.others.iter().filter(|(_, value)| wanted(value)) {
            member(key, value);
        }
        if before == b",\"" {
            out.push(b'}');
        }
    }

    /// Returns these arguments without `arg`, followed by the arguments of `more`.
    pub(super) fn in_place_of<'b>(&'b self, arg: Arg, more: &'b [(String, String)]) -> Args<'b>
    where
        'a: 'b,
    {
        let mut args = Args {
            present: self.present & !arg.bit(),
            slots: self.slots,
            others: self.others.clone(),
        };
        for (key, value) in more {
            let (key, value) = (key.as_bytes(), value.as_bytes());
            match Arg::from_key(key) {
                Some(arg) => args.set(arg, value),
                None => args.others.push((key, value)),
            }
        }
        args
    }

    pub(crate) fn set(&mut self, arg: Arg, value: &'a [u8]) {
        self.present |= arg.bit();
        self.slots[arg as usize] = value;
    }
}
