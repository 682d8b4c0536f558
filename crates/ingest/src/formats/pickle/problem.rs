//! Reasons for which a pickle is not read.

/// Reason for which a pickle is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It ends in the middle.
    Truncated,
    /// Its compressed data is damaged.
    DamagedGzip,
    /// It expands to more than the limit allows.
    TooLong,
    /// It asks to look up or call something: the name, and the byte after the instruction.
    Refused(String, u64),
    /// It is not a pickle from this byte on.
    Malformed(&'static str, u64),
    /// Building it would take far more memory than data of its length does.
    TooMuch,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => {
                write!(f, "the pickle ends in the middle: copy or dump it again")
            }
            Self::DamagedGzip => {
                write!(f, "the compressed data ends early or is damaged: copy or dump it again")
            }
            Self::TooLong => write!(
                f,
                "expands to far more data than a pickle of its size would: refused as a decompression \
                 bomb (raise the limit with --max-json-bytes if it is genuine)"
            ),
            Self::Refused(what, at) => write!(
                f,
                "the pickle asks to load {what} (byte {at}), which would run code: refused; only plain \
                 data is read (dicts, lists, text, numbers), as torch.cuda.memory._dump_snapshot writes it"
            ),
            Self::Malformed(what, at) => write!(f, "not a valid pickle: {what} (byte {at})"),
            Self::TooMuch => {
                write!(f, "the pickle would build far more than data of its length does: refused")
            }
        }
    }
}
