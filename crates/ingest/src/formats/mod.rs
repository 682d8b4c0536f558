//! The formats that can be read. A new one is a module here and a line in [`recognise`].

pub(crate) mod execution;
pub(crate) mod kineto;

/// What can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A Chrome trace as PyTorch Profiler (Kineto) writes it.
    Kineto,
    /// Operators and their arguments without times, as PyTorch's `ExecutionTraceObserver` writes them.
    ExecutionTrace,
}

/// What the first bytes of a file say it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recognised {
    /// A format of ours.
    Trace(Format),
    /// Known, but not a trace: the text says what it is.
    Other(&'static str),
    /// Nothing known.
    Unknown,
}

/// Why a file has no usable content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    NotJson,
    NoEvents,
    NoNodes,
    TooLong,
    PieceTooLong,
}

impl Unreadable {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NotJson => "not JSON: neither an object nor a list of events",
            Self::NoEvents => "JSON without an event list (\"traceEvents\")",
            Self::NoNodes => "JSON without a node list (\"nodes\")",
            Self::TooLong => {
                "expands to far more JSON than a trace of its size would: refused as a decompression \
                 bomb (raise the limit with --max-json-bytes if it is genuine)"
            }
            Self::PieceTooLong => {
                "a single event or metadata entry is longer than 256 MiB: refused"
            }
        }
    }
}

/// What tells an execution trace from any other graph with a schema and nodes.
const EXECUTION_TRACE_KEYS: [&str; 4] =
    ["\"start_ts\"", "\"rf_id\"", "\"op_schema\"", "\"ctrl_deps\""];

/// Recognises a format by the first bytes of its text.
pub(crate) fn recognise(prefix: &[u8]) -> Recognised {
    let text = prefix.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(prefix).trim_ascii_start();
    let has = |needle: &str| memchr::memmem::find(text, needle.as_bytes()).is_some();
    match text.first() {
        Some(b'{')
            if has("\"nodes\"")
                && has("\"schema\"")
                && EXECUTION_TRACE_KEYS.iter().any(|key| has(key))
                && !has("\"traceEvents\"") =>
        {
            Recognised::Trace(Format::ExecutionTrace)
        }
        // Large metadata may push the events out of the prefix: these keys come first then.
        Some(b'{')
            if [
                "\"traceEvents\"",
                "\"schemaVersion\"",
                "\"deviceProperties\"",
                "\"distributedInfo\"",
            ]
            .iter()
            .any(|key| has(key)) =>
        {
            Recognised::Trace(Format::Kineto)
        }
        Some(b'[') if has("\"ph\"") => Recognised::Trace(Format::Kineto),
        Some(b'{' | b'[') => Recognised::Other("JSON, but not a trace"),
        _ => Recognised::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_known_by_content() {
        assert_eq!(recognise(b" {\"schemaVersion\": 1,"), Recognised::Trace(Format::Kineto));
        assert_eq!(recognise(b"[{\"ph\": \"X\"}]"), Recognised::Trace(Format::Kineto));
        let header =
            b"{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 7, \"start_ts\": 1, \"nodes\": [";
        assert_eq!(recognise(header), Recognised::Trace(Format::ExecutionTrace));
        let graph = b"{\"schema\": 1, \"nodes\": []}";
        assert_eq!(recognise(graph), Recognised::Other("JSON, but not a trace"));
        assert_eq!(recognise(b"{\"a\": 1}"), Recognised::Other("JSON, but not a trace"));
        assert_eq!(recognise(b"import torch"), Recognised::Unknown);
        assert_eq!(recognise(b""), Recognised::Unknown);
    }
}
