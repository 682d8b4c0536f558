//! The formats that can be read. A new one is a module here and a line in [`recognise`].

pub(crate) mod composer;
pub(crate) mod determined;
pub(crate) mod execution;
pub(crate) mod kineto;
pub(crate) mod memory_timeline;
pub(crate) mod pickle;
pub(crate) mod snapshot;
mod text;

/// What can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A Chrome trace as PyTorch Profiler (Kineto) writes it.
    Kineto,
    /// A Chrome trace as Composer's profiler writes it.
    Composer,
    /// Operators and their arguments without times, as PyTorch's `ExecutionTraceObserver` writes them.
    ExecutionTrace,
    /// What the caching allocator holds and did, as `torch.cuda.memory._dump_snapshot` pickles it.
    MemorySnapshot,
    /// Bytes by category over time, as `export_memory_timeline` writes them.
    MemoryTimeline,
    /// What Determined's profiler measured, in one of the forms that users get it in.
    Determined(determined::Form),
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

/// What tells a memory snapshot from any other pickle: the first entries of its dict or of its segments.
const SNAPSHOT_KEYS: [&str; 4] = ["segments", "device_traces", "total_size", "segment_type"];

const MEMORY_TIMELINE_PICTURE: &str = "a memory timeline as a picture in HTML, without its numbers: \
    export it again under a name that ends in .raw.json.gz or .json.gz";
const PARTITION: &str = "Parquet: an export is read as a folder, with its run.json";
const OTHER_PICKLE: &str = "a pickle, but no memory snapshot";

/// A list of lists of numbers: `[[1795290660024713, ...` or, empty, `[[], []]`. Lists of events hold objects.
fn is_memory_timeline(text: &[u8]) -> bool {
    let inner = text.get(1..).unwrap_or_default().trim_ascii_start();
    let Some(inner) = inner.strip_prefix(b"[").map(<[u8]>::trim_ascii_start) else { return false };
    matches!(inner.first(), Some(b'-' | b'0'..=b'9' | b']'))
}

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
        Some(b'[') if has("\"ph\"") && composer::KEYS.iter().any(|key| has(key)) => {
            Recognised::Trace(Format::Composer)
        }
        Some(b'[') if has("\"ph\"") => Recognised::Trace(Format::Kineto),
        Some(b'[') if is_memory_timeline(text) => Recognised::Trace(Format::MemoryTimeline),
        _ if text.starts_with(b"PAR1") => Recognised::Other(PARTITION),
        _ if has("<title>GPU Memory Timeline HTML</title>") => {
            Recognised::Other(MEMORY_TIMELINE_PICTURE)
        }
        _ if pickle::is_pickle(prefix) => {
            if SNAPSHOT_KEYS.iter().any(|key| has(key)) {
                Recognised::Trace(Format::MemorySnapshot)
            } else {
                Recognised::Other(OTHER_PICKLE)
            }
        }
        _ => match (determined::recognise(text), determined::other(text), text.first()) {
            (Some(form), ..) => Recognised::Trace(Format::Determined(form)),
            (_, Some(what), _) => Recognised::Other(what),
            (.., Some(b'{' | b'[')) => Recognised::Other("JSON, but not a trace"),
            _ => Recognised::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_known_by_content() {
        assert_eq!(recognise(b" {\"schemaVersion\": 1,"), Recognised::Trace(Format::Kineto));
        assert_eq!(recognise(b"[{\"ph\": \"X\"}]"), Recognised::Trace(Format::Kineto));
        let composer = b"[\n{\"name\": \"callback/Profiler/event/init\", \"ph\": \"E\"";
        assert_eq!(recognise(composer), Recognised::Trace(Format::Composer));
        let header =
            b"{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 7, \"start_ts\": 1, \"nodes\": [";
        assert_eq!(recognise(header), Recognised::Trace(Format::ExecutionTrace));
        let graph = b"{\"schema\": 1, \"nodes\": []}";
        assert_eq!(recognise(graph), Recognised::Other("JSON, but not a trace"));
        assert_eq!(recognise(b"{\"a\": 1}"), Recognised::Other("JSON, but not a trace"));
        assert_eq!(recognise(b"import torch"), Recognised::Unknown);
        assert_eq!(recognise(b""), Recognised::Unknown);
        let timeline = Recognised::Trace(Format::MemoryTimeline);
        assert_eq!(recognise(b"[[1795290660024713, 1795290660025114], [["), timeline);
        assert_eq!(recognise(b"[[-1, 1, 32768, 0], "), timeline);
        assert_eq!(recognise(b"[[], []]"), timeline);
        assert_eq!(recognise(b"[[\"a\"]]"), Recognised::Other("JSON, but not a trace"));
        let picture = b"<html>\n<head><title>GPU Memory Timeline HTML</title></head>";
        assert_eq!(recognise(picture), Recognised::Other(MEMORY_TIMELINE_PICTURE));
        let snapshot = Recognised::Trace(Format::MemorySnapshot);
        assert_eq!(recognise(b"\x80\x04\x95\x01\0\0\0\0\0\0\0}\x94(\x8c\x08segments"), snapshot);
        assert_eq!(recognise(b"(dp0\nVsegments\np1\n(lp2"), snapshot);
        assert_eq!(recognise(b"]q\0(}q\x01(U\x06deviceq\x02K\0U\x0atotal_size"), snapshot);
        assert_eq!(recognise(b"\x80\x02}q\0."), Recognised::Other(OTHER_PICKLE));
    }
}
