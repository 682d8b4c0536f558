//! Recognizes the format of a file by its first bytes.

use super::determined::unsupported_dump;
use super::head::Head;
use super::importer::{Importer, Match};
use super::unsupported::UnsupportedFormat;
use super::{IMPORTERS, kineto};

/// The format that the head of a file suggests.
#[derive(Clone, Copy)]
pub(crate) enum Recognized {
    /// A format that can be read.
    Known(&'static dyn Importer),
    /// A recognized file that is not part of a run.
    Unsupported(UnsupportedFormat),
    /// Not recognized.
    Unknown,
}

/// Recognizes a file: as the format that matches best, else as something that cannot be read.
pub(crate) fn recognize(head: &Head<'_>) -> Recognized {
    let (mut best, mut found) = (Match::No, None);
    for &importer in IMPORTERS {
        let is_match = importer.sniff(head);
        if is_match > best {
            (best, found) = (is_match, Some(importer));
        }
        if best == Match::Certain {
            break;
        }
    }
    let unsupported = UnsupportedFormat::of_content(head).filter(|_| best < Match::Likely);
    match (unsupported, found) {
        (Some(UnsupportedFormat::Zip(_)), _) => {
            Recognized::Unsupported(UnsupportedFormat::Zip(readable_in_zip(head)))
        }
        (Some(format), _) => Recognized::Unsupported(format),
        (None, Some(importer)) => Recognized::Known(importer),
        (None, None) => other_text(head).map_or(Recognized::Unknown, Recognized::Unsupported),
    }
}

/// The kind of text that a file is, where nothing else is known of it.
fn other_text(head: &Head<'_>) -> Option<UnsupportedFormat> {
    let is_json = head.begins_with(b'{') || head.begins_with(b'[');
    unsupported_dump(head.text()).or(is_json.then_some(UnsupportedFormat::OtherJson))
}

/// The first file of a zip archive, if it can be read: as [`super::importer::Descriptor::files`] names its format.
fn readable_in_zip(head: &Head<'_>) -> Option<&'static str> {
    // An archive in an archive is not opened.
    let entry = head.zip_entry().filter(|entry| !entry.bytes.starts_with(b"PK"))?;
    match recognize(&Head::new(&entry.name, &entry.bytes)) {
        Recognized::Known(importer) => Some(importer.descriptor().files),
        Recognized::Unsupported(_) | Recognized::Unknown => None,
    }
}

/// The importer of a file that a user named and that no format matches: a trace may begin with anything.
pub(crate) fn importer_of_any_file() -> &'static dyn Importer {
    &kineto::Kineto
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of the format, else the description of what it is, else `unknown`.
    fn format_of(bytes: &[u8]) -> String {
        match recognize(&Head::new("file", bytes)) {
            Recognized::Known(importer) => importer.descriptor().name.to_owned(),
            Recognized::Unsupported(format) => format.description(),
            Recognized::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn escaped_keys_are_recognized() {
        for text in [
            r#"{"trac\u0065Events": []}"#,
            r#"[{"p\u0068": "X", "ts": 1}]"#,
            r#"{"\u0064eviceProperties": []}"#,
        ] {
            assert_eq!(format_of(text.as_bytes()), "kineto", "{text}");
        }
    }

    #[test]
    fn formats_are_recognized_by_content() {
        let expected: &[(&str, &[u8])] = &[
            ("kineto", b" {\"schemaVersion\": 1,"),
            ("kineto", b"[{\"ph\": \"X\"}]"),
            ("kineto", b"{\"schema\": 1, \"nodes\": [], \"start_ts\": 1, \"traceEvents\": []}"),
            ("composer", b"[\n{\"name\": \"callback/Profiler/event/init\", \"ph\": \"E\""),
            (
                "execution trace",
                b"{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 7, \"start_ts\": 1, \"nodes\": [",
            ),
            (
                "torch.compile log",
                b"V0521 11:50:39.474000 3054118 torch/_dynamo/utils.py:1864] {\"chromium_event\": {}}\n\t{",
            ),
            ("unknown", b"V0521 11:50:39.474000 3054118 torch/_dynamo/utils.py:1864] [0/0] guard"),
            ("memory timeline", b"[[1795290660024713, 1795290660025114], [["),
            ("memory timeline", b"[[-1, 1, 32768, 0], "),
            ("memory timeline", b"[[], []]"),
            (
                "flight recorder",
                b"\x80\x02}(X\x07\0\0\0versionq\0X\x04\0\0\x002.10q\x01X\x09\0\0\0pg_configq\x02}",
            ),
            (
                "flight recorder",
                b"{\"comm_lib_version\":\"\",\"entries\":[{\"collective_seq_id\":1,",
            ),
            ("memory snapshot", b"\x80\x04\x95\x01\0\0\0\0\0\0\0}\x94(\x8c\x08segments"),
            ("memory snapshot", b"(dp0\nVsegments\np1\n(lp2"),
            ("memory snapshot", b"]q\0(}q\x01(U\x06deviceq\x02K\0U\x0atotal_size"),
            ("memory snapshot", b"SQLite format 3\0\x10 CREATE TABLE device_traces(id integer)"),
            ("determined metrics", b"{\"id\":1,\"values\":[1],\"batches\":[1],\"ts\":[]}"),
            ("determined metrics", b"id,values,batches,ts,labels\n"),
            ("sample", b"sample timeline\n"),
            ("unknown", b"import torch"),
            ("unknown", b"  \n"),
        ];
        for (format, bytes) in expected {
            assert_eq!(format_of(bytes), *format, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn files_that_people_mistake_for_traces_are_named() {
        let mut tar = b"run/rank0.json\0".to_vec();
        tar.resize(257, 0);
        tar.extend(b"ustar\x0000");
        let zip = |name: &[u8], content: &[u8]| {
            let mut zip = b"PK\x03\x04".to_vec();
            zip.resize(30, 0);
            zip[26] = name.len() as u8;
            [&zip, name, content].concat()
        };
        let trace = zip(b"a.json", b"{\"traceEvents\": []}");
        let saved = zip(b"archive/data.pkl", b"\x80\x02}q\0.");
        let sqlite =
            |table: &str| format!("SQLite format 3\0 CREATE TABLE {table} (x)").into_bytes();
        let expected: &[(&[u8], &str)] = &[
            (b"", "empty"),
            (b"PK\x03\x04\x14\0", "a zip archive: unpack it"),
            (
                &trace,
                "a zip archive that begins with one of the traces of PyTorch Profiler (Kineto): unpack it",
            ),
            (&saved, "a file of torch.save, not a trace"),
            (&tar, "a tar archive: unpack it"),
            (b"\x28\xB5\x2F\xFD\x04", "compressed with zstd: decompress it with `zstd -d`"),
            (b"\xFD7zXZ\0\0\x04", "compressed with xz: decompress it with `xz -d`"),
            (b"BZh91AY", "compressed with bzip2: decompress it with `bzip2 -d`"),
            (b"SQLite format 3\0\x10", "a SQLite database, which is not supported"),
            (b"\x7FELF\x02", "a program or a library, not a trace"),
            (b"\x1F\x8B", "damaged gzip"),
            (b"PAR1", "Parquet: an export is read as a folder, with its run.json"),
            (b"{\"a\": 1}", "JSON, but not a trace"),
            (b"{\"schema\": 1, \"nodes\": []}", "JSON, but not a trace"),
            (b"[[\"a\"]]", "JSON, but not a trace"),
            (
                b"\x80\x02}q\0.",
                "a pickle, but neither a memory snapshot nor a dump of the Flight Recorder",
            ),
        ];
        for (bytes, description) in expected {
            assert_eq!(format_of(bytes), *description);
        }
        for (bytes, words) in [
            (sqlite("CUPTI_ACTIVITY_KIND_KERNEL"), "Nsight Systems (SQLite)"),
            (sqlite("rocpd_op"), "rocpd"),
            (sqlite("traces_of_devices"), "a SQLite database, which is not supported"),
            (sqlite("CANN_API"), "Ascend"),
            (b"{\"CudaEvent\": 1}".to_vec(), "a report of Nsight Systems"),
            (b"{\"rocprofiler-sdk-tool\": [{\"metadata\": {".to_vec(), "rocprofv3"),
            (b"<html>\n<head><title>GPU Memory Timeline HTML</title></head>".to_vec(), "a picture"),
        ] {
            assert!(format_of(&bytes).contains(words), "{words}: {}", format_of(&bytes));
        }
        let listed = ["x/a.parquet", "x/StringIds.parquet"].map(str::to_owned);
        let head = Head::new("x/a.parquet", b"PAR1").with_listing(&listed);
        let Recognized::Unsupported(format) = recognize(&head) else { panic!() };
        assert!(format.description().contains("Nsight Systems (Parquet)"));
        let report = UnsupportedFormat::of_name("a/report1.NSYS-rep").unwrap();
        assert!(report.description().contains("Nsight Systems"));
        let profile = UnsupportedFormat::of_name("plugins/profile/host.xplane.pb").unwrap();
        assert!(profile.description().contains("a profile of XLA"));
        assert_eq!(UnsupportedFormat::of_name("rank0.json"), None);
    }

    #[test]
    fn each_format_has_a_name_and_a_fuzz_target_of_its_own() {
        let formats = crate::formats();
        let distinct = |key: fn(&crate::Format) -> &'static str| {
            formats
                .iter()
                .map(|format| key(format))
                .collect::<std::collections::BTreeSet<_>>()
                .len()
        };
        assert_eq!(distinct(|format| format.name), formats.len());
        assert_eq!(distinct(|format| format.fuzz_target), formats.len());
    }
}
