//! Guesses the format of a file from the first bytes of its text.

use std::borrow::Cow;

use super::composer;
use super::determined::sniff::{self, Form};
use super::flight_recorder::{self, Encoding};
use super::pickle;
use super::torch_trace;
use super::unsupported::UnsupportedFormat;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A Chrome trace as PyTorch Profiler (Kineto) writes it.
    Kineto,
    /// A Chrome trace as Composer's profiler writes it.
    Composer,
    /// Operators and their arguments without times, as PyTorch's `ExecutionTraceObserver` writes them.
    ExecutionTrace,
    /// State and history of the caching allocator, as `torch.cuda.memory._dump_snapshot` pickles them.
    MemorySnapshot,
    /// Bytes by category over time, as `export_memory_timeline` writes them.
    MemoryTimeline,
    /// Records of `torch.compile`, as `TORCH_TRACE` writes them.
    TorchTrace,
    /// Collectives that a rank called last, as PyTorch's Flight Recorder pickles them, or as JSON.
    FlightRecorder(Encoding),
    /// Metrics of Determined's profiler, in one of the forms in which users get them.
    Determined(Form),
}

/// The format that the first bytes of a file suggest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatGuess {
    /// A format that can be read.
    Known(Format),
    /// A recognized file that is not part of a run.
    Unsupported(UnsupportedFormat),
    /// Not recognized.
    Unknown,
}

/// Keys that distinguish an execution trace from any other graph with a schema and nodes.
const EXECUTION_TRACE_KEYS: [&str; 4] =
    ["\"start_ts\"", "\"rf_id\"", "\"op_schema\"", "\"ctrl_deps\""];

/// Keys that distinguish an export of Nsight Systems as JSON: one object per line.
const NSIGHT_KEYS: [&str; 4] =
    ["\"TraceProcessEvent\"", "\"CudaEvent\"", "\"NvtxEvent\"", "\"GpuContextInfo\""];

/// Keys that distinguish a memory snapshot from any other pickle: the first entries of its dict or of its segments.
const SNAPSHOT_KEYS: [&str; 4] = ["segments", "device_traces", "total_size", "segment_type"];

/// A list of lists of numbers: `[[1795290660024713, ...` or, empty, `[[], []]`. Lists of events hold objects.
fn is_memory_timeline(text: &[u8]) -> bool {
    let inner = text.get(1..).unwrap_or_default().trim_ascii_start();
    let Some(inner) = inner.strip_prefix(b"[").map(<[u8]>::trim_ascii_start) else { return false };
    matches!(inner.first(), Some(b'-' | b'0'..=b'9' | b']'))
}

/// Guesses a format from the first bytes of the text of a file.
pub(crate) fn guess_format(prefix: &[u8]) -> FormatGuess {
    if let Some(format) = UnsupportedFormat::of_bytes(prefix) {
        return FormatGuess::Unsupported(format);
    }
    let text = prefix.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(prefix).trim_ascii_start();
    let text = &*with_plain_letters(text);
    let has = |needle: &str| memchr::memmem::find(text, needle.as_bytes()).is_some();
    match text.first() {
        Some(b'{')
            if has("\"nodes\"")
                && has("\"schema\"")
                && EXECUTION_TRACE_KEYS.iter().any(|key| has(key))
                && !has("\"traceEvents\"") =>
        {
            FormatGuess::Known(Format::ExecutionTrace)
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
            FormatGuess::Known(Format::Kineto)
        }
        Some(b'[') if has("\"ph\"") && composer::KEYS.iter().any(|key| has(key)) => {
            FormatGuess::Known(Format::Composer)
        }
        Some(b'[') if has("\"ph\"") => FormatGuess::Known(Format::Kineto),
        Some(b'[') if is_memory_timeline(text) => FormatGuess::Known(Format::MemoryTimeline),
        Some(b'{') if NSIGHT_KEYS.iter().any(|key| has(key)) => {
            FormatGuess::Unsupported(UnsupportedFormat::NsightSystems)
        }
        _ if torch_trace::starts_log(text) => FormatGuess::Known(Format::TorchTrace),
        _ if text.starts_with(b"PAR1") => {
            FormatGuess::Unsupported(UnsupportedFormat::ParquetPartition)
        }
        _ if has("<title>GPU Memory Timeline HTML</title>") => {
            FormatGuess::Unsupported(UnsupportedFormat::MemoryTimelinePicture)
        }
        Some(b'{') if flight_recorder::has_keys(text) => {
            FormatGuess::Known(Format::FlightRecorder(Encoding::Json))
        }
        _ if pickle::is_pickle(prefix) && flight_recorder::has_keys(prefix) => {
            FormatGuess::Known(Format::FlightRecorder(Encoding::Pickle))
        }
        _ if pickle::is_pickle(prefix) => {
            if SNAPSHOT_KEYS.iter().any(|key| has(key)) {
                FormatGuess::Known(Format::MemorySnapshot)
            } else {
                FormatGuess::Unsupported(UnsupportedFormat::OtherPickle)
            }
        }
        _ => match (sniff::sniff(text), sniff::unsupported_dump(text), text.first()) {
            (Some(form), ..) => FormatGuess::Known(Format::Determined(form)),
            (_, Some(dump), _) => FormatGuess::Unsupported(dump),
            (.., Some(b'{' | b'[')) => FormatGuess::Unsupported(UnsupportedFormat::OtherJson),
            _ => FormatGuess::Unknown,
        },
    }
}

/// Decodes escaped ASCII letters and digits in JSON text, because keys may be escaped.
fn with_plain_letters(text: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: &[u8] = b"\\u00";
    let is_json = matches!(text.first(), Some(b'{' | b'['));
    if !is_json || memchr::memmem::find(text, ESCAPE).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = rest.strip_prefix(ESCAPE).and_then(|rest| rest.first_chunk::<2>());
        let letter = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let letter = letter.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(letter) = letter.filter(u8::is_ascii_alphanumeric) {
            plain.push(letter);
            rest = &rest[ESCAPE.len() + 2..];
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_keys_are_recognized() {
        for text in [
            r#"{"trac\u0065Events": []}"#,
            r#"[{"p\u0068": "X", "ts": 1}]"#,
            r#"{"\u0064eviceProperties": []}"#,
        ] {
            assert_eq!(guess_format(text.as_bytes()), FormatGuess::Known(Format::Kineto), "{text}");
        }
        assert_eq!(
            with_plain_letters(br#"{"\u0022\u00zz\u004": 1}"#),
            &br#"{"\u0022\u00zz\u004": 1}"#[..]
        );
    }

    #[test]
    fn guess_format_recognizes_each_format_by_content() {
        assert_eq!(guess_format(b" {\"schemaVersion\": 1,"), FormatGuess::Known(Format::Kineto));
        assert_eq!(guess_format(b"[{\"ph\": \"X\"}]"), FormatGuess::Known(Format::Kineto));
        let composer = b"[\n{\"name\": \"callback/Profiler/event/init\", \"ph\": \"E\"";
        assert_eq!(guess_format(composer), FormatGuess::Known(Format::Composer));
        let header =
            b"{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 7, \"start_ts\": 1, \"nodes\": [";
        assert_eq!(guess_format(header), FormatGuess::Known(Format::ExecutionTrace));
        let graph = b"{\"schema\": 1, \"nodes\": []}";
        assert_eq!(guess_format(graph), FormatGuess::Unsupported(UnsupportedFormat::OtherJson));
        assert_eq!(
            guess_format(b"{\"a\": 1}"),
            FormatGuess::Unsupported(UnsupportedFormat::OtherJson)
        );
        let log = b"V0521 11:50:39.474000 3054118 torch/_dynamo/utils.py:1864] {\"chromium_event\": {}}\n\t{";
        assert_eq!(guess_format(log), FormatGuess::Known(Format::TorchTrace));
        let other =
            b"V0521 11:50:39.474000 3054118 torch/_dynamo/utils.py:1864] [0/0] creating guard";
        assert_eq!(guess_format(other), FormatGuess::Unknown);
        assert_eq!(guess_format(b"import torch"), FormatGuess::Unknown);
        assert_eq!(guess_format(b"  \n"), FormatGuess::Unknown);
        let timeline = FormatGuess::Known(Format::MemoryTimeline);
        assert_eq!(guess_format(b"[[1795290660024713, 1795290660025114], [["), timeline);
        assert_eq!(guess_format(b"[[-1, 1, 32768, 0], "), timeline);
        assert_eq!(guess_format(b"[[], []]"), timeline);
        assert_eq!(
            guess_format(b"[[\"a\"]]"),
            FormatGuess::Unsupported(UnsupportedFormat::OtherJson)
        );
        let picture = b"<html>\n<head><title>GPU Memory Timeline HTML</title></head>";
        assert_eq!(
            guess_format(picture),
            FormatGuess::Unsupported(UnsupportedFormat::MemoryTimelinePicture)
        );
        let flight = |encoding| FormatGuess::Known(Format::FlightRecorder(encoding));
        assert_eq!(
            guess_format(
                b"\x80\x02}(X\x07\0\0\0versionq\0X\x04\0\0\x002.10q\x01X\x09\0\0\0pg_configq\x02}"
            ),
            flight(Encoding::Pickle)
        );
        assert_eq!(
            guess_format(b"{\"comm_lib_version\":\"\",\"entries\":[{\"collective_seq_id\":1,"),
            flight(Encoding::Json)
        );
        let snapshot = FormatGuess::Known(Format::MemorySnapshot);
        assert_eq!(guess_format(b"\x80\x04\x95\x01\0\0\0\0\0\0\0}\x94(\x8c\x08segments"), snapshot);
        assert_eq!(guess_format(b"(dp0\nVsegments\np1\n(lp2"), snapshot);
        assert_eq!(guess_format(b"]q\0(}q\x01(U\x06deviceq\x02K\0U\x0atotal_size"), snapshot);
        assert_eq!(
            guess_format(b"\x80\x02}q\0."),
            FormatGuess::Unsupported(UnsupportedFormat::OtherPickle)
        );
    }

    #[test]
    fn guess_format_names_files_that_people_mistake_for_traces() {
        let mut tar = b"run/rank0.json\0".to_vec();
        tar.resize(257, 0);
        tar.extend(b"ustar\x0000");
        for (bytes, description) in [
            (b"".as_slice(), "empty"),
            (b"PK\x03\x04\x14\0", "a zip archive: unpack it"),
            (&tar, "a tar archive: unpack it"),
            (b"\x28\xB5\x2F\xFD\x04", "compressed with zstd: decompress it with `zstd -d`"),
            (b"\xFD7zXZ\0\0\x04", "compressed with xz: decompress it with `xz -d`"),
            (b"BZh91AY", "compressed with bzip2: decompress it with `bzip2 -d`"),
            (b"SQLite format 3\0\x10", "a SQLite database, which is not supported"),
            (b"\x7FELF\x02", "a program or a library, not a trace"),
            (b"\x1F\x8B", "damaged gzip"),
        ] {
            let FormatGuess::Unsupported(format) = guess_format(bytes) else {
                panic!("{description}");
            };
            assert_eq!(format.description(), description);
        }
        let report = UnsupportedFormat::of_name("a/report1.NSYS-rep").unwrap();
        assert!(report.description().contains("Nsight Systems"));
        assert_eq!(UnsupportedFormat::of_name("rank0.json"), None);
    }
}
