//! One Chrome trace event as slices of the text: what was written, not yet what it means.

use crate::json::{LexError, Lexer, RawStr};

/// Declares the argument names that have a use of their own. Several spellings may share a slot:
/// profilers renamed arguments over the years and vendors differ.
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

            #[inline]
            fn from_key(key: &[u8]) -> Option<Self> {
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
    fn clear(&mut self) {
        self.present = 0;
        self.others.clear();
    }

    /// The value as written, if the event has the argument.
    #[inline]
    pub(crate) fn get(&self, arg: Arg) -> Option<&'a [u8]> {
        (self.present & arg.bit() != 0).then(|| self.slots[arg as usize])
    }

    /// Writes as one JSON object what no column takes: arguments without a slot, and those outside
    /// `taken`. Nothing if there are none.
    pub(crate) fn write_rest(&self, taken: u64, out: &mut Vec<u8>) {
        self.write_rest_where(taken, |_| true, out);
    }

    /// The same, of the arguments without a slot only those whose value is `wanted`. `out` is empty.
    pub(crate) fn write_rest_where(
        &self,
        taken: u64,
        wanted: impl Fn(&[u8]) -> bool,
        out: &mut Vec<u8>,
    ) {
        let mut member = |key: &[u8], value: &[u8]| {
            out.push(if out.is_empty() { b'{' } else { b',' });
            out.push(b'"');
            out.extend_from_slice(key);
            out.extend_from_slice(b"\":");
            out.extend_from_slice(value);
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
        if !out.is_empty() {
            out.push(b'}');
        }
    }

    fn set(&mut self, arg: Arg, value: &'a [u8]) {
        self.present |= arg.bit();
        self.slots[arg as usize] = value;
    }
}

/// One event, borrowed from the text.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) phase: u8,
    pub(crate) category: Option<RawStr<'a>>,
    pub(crate) name: Option<RawStr<'a>>,
    pub(crate) pid: &'a [u8],
    pub(crate) tid: &'a [u8],
    pub(crate) ts: Option<&'a [u8]>,
    pub(crate) dur: Option<&'a [u8]>,
    pub(crate) id: Option<&'a [u8]>,
    pub(crate) args: Args<'a>,
}

impl<'a> Event<'a> {
    pub(crate) fn new() -> Self {
        Self {
            phase: 0,
            category: None,
            name: None,
            pid: b"",
            tid: b"",
            ts: None,
            dur: None,
            id: None,
            args: Args { present: 0, slots: [b""; Arg::COUNT], others: Vec::new() },
        }
    }

    /// Reads the event object at the lexer's position into `self`. Keys may come in any order.
    pub(crate) fn read(&mut self, lexer: &mut Lexer<'a>) -> Result<(), LexError> {
        self.phase = 0;
        self.category = None;
        self.name = None;
        self.pid = b"";
        self.tid = b"";
        self.ts = None;
        self.dur = None;
        self.id = None;
        self.args.clear();
        lexer.expect(b'{')?;
        if lexer.peek()? == b'}' {
            lexer.bump();
            return Ok(());
        }
        loop {
            let key = lexer.string()?;
            lexer.expect(b':')?;
            match key.bytes {
                b"ph" => {
                    let value = lexer.value()?;
                    self.phase = if value.len() == 3 { value[1] } else { 0 };
                }
                b"cat" => self.category = string_value(lexer)?,
                b"name" => self.name = string_value(lexer)?,
                b"pid" => self.pid = lexer.value()?,
                b"tid" => self.tid = lexer.value()?,
                b"ts" => self.ts = Some(lexer.value()?),
                b"dur" => self.dur = Some(lexer.value()?),
                b"id" => self.id = Some(lexer.value()?),
                b"args" => self.read_args(lexer)?,
                // bp, s, tts, tdur, cname ...: how to draw the event, not what happened
                _ => {
                    lexer.value()?;
                }
            }
            match lexer.peek()? {
                b',' => lexer.bump(),
                b'}' => {
                    lexer.bump();
                    return Ok(());
                }
                _ => return Err(LexError::Syntax),
            }
        }
    }

    fn read_args(&mut self, lexer: &mut Lexer<'a>) -> Result<(), LexError> {
        if lexer.peek()? != b'{' {
            lexer.value()?;
            return Ok(());
        }
        lexer.bump();
        if lexer.peek()? == b'}' {
            lexer.bump();
            return Ok(());
        }
        loop {
            let key = lexer.string()?;
            lexer.expect(b':')?;
            let value = lexer.value()?;
            match Arg::from_key(key.bytes) {
                Some(arg) => self.args.set(arg, value),
                None => self.args.others.push((key.bytes, value)),
            }
            match lexer.peek()? {
                b',' => lexer.bump(),
                b'}' => {
                    lexer.bump();
                    return Ok(());
                }
                _ => return Err(LexError::Syntax),
            }
        }
    }
}

/// A string; any other value counts as absent.
#[inline]
fn string_value<'a>(lexer: &mut Lexer<'a>) -> Result<Option<RawStr<'a>>, LexError> {
    if lexer.peek()? == b'"' {
        lexer.string().map(Some)
    } else {
        lexer.value()?;
        Ok(None)
    }
}
