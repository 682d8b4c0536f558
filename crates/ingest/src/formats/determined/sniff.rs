//! Recognizes the forms of Determined's metrics by the first bytes of a text.

use memchr::memmem;

use crate::formats::unsupported::UnsupportedFormat;

/// Form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON objects: on lines of their own, one after the other, or in a list.
    Json,
    /// Rows of a table with a header, as `COPY ... csv header` writes them.
    Csv,
    /// Output of `pg_dump`.
    Dump,
}

/// Columns that make a table one of the two in which Determined keeps metrics.
const TABLES: [&[&str]; 2] =
    [&["values", "batches", "ts", "labels"], &["trial_id", "end_time", "metrics", "metric_group"]];
/// Names of these tables.
const TABLE_NAMES: [&str; 2] = ["trial_profiler_metrics", "system_metrics"];

/// Starts of the JSON forms, without white space, for files whose first list is longer than the prefix.
const BEGINNINGS: [&str; 6] = [
    "{\"result\":{\"batch\":{",
    "{\"result\":{\"labels\":[",
    "{\"batch\":{\"values\":[",
    "{\"batches\":[{\"values\":[",
    "{\"error\":{\"grpcCode\"",
    "{\"error\":{\"grpc_code\"",
];
/// Keys and values that occur together only in these forms.
const MARKS: [&[&str]; 8] = [
    &["\"PROFILER_METRIC_TYPE_"],
    &["\"/api/v1/trials/", "\"body\""],
    &["\"avgMetrics\"", "\"reportTime\""],
    &["\"metric_group\"", "\"end_time\"", "\"trial_id\""],
    &["\"trialId\"", "\"endTime\"", "\"metrics\""],
    &["\"values\"", "\"batches\"", "\"ts\""],
    &["\"values\"", "\"batches\"", "\"timestamps\""],
    &["{\"error\":{\"code\":", "\"reason\":"],
];

/// The form of `text`, which starts without a byte order mark or white space.
pub(crate) fn sniff(text: &[u8]) -> Option<Form> {
    let has = |needle: &str| memmem::find(text, needle.as_bytes()).is_some();
    if matches!(text.first(), Some(b'{' | b'[')) {
        let is_json = MARKS.iter().any(|marks| marks.iter().all(|mark| has(mark))) || begins(text);
        return is_json.then_some(Form::Json);
    }
    let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if is_table(&columns(header)) {
        return Some(Form::Csv);
    }
    let names_table = TABLE_NAMES.iter().any(|name| has(name));
    (has("FROM stdin;") && names_table || is_dump(text) && names_table && !has("INSERT INTO "))
        .then_some(Form::Dump)
}

/// The kind of database dump that a text is, if it is one that cannot be read.
pub(crate) fn unsupported_dump(text: &[u8]) -> Option<UnsupportedFormat> {
    let has = |needle: &str| memmem::find(text, needle.as_bytes()).is_some();
    let names_table = TABLE_NAMES.iter().any(|name| has(name));
    match is_dump(text) {
        true if names_table => Some(UnsupportedFormat::DumpWithInserts),
        true => Some(UnsupportedFormat::OtherDump),
        false => None,
    }
}

fn is_dump(text: &[u8]) -> bool {
    let head = &text[..text.len().min(256)];
    memmem::find(head, b"PostgreSQL database dump").is_some()
}

/// Returns whether the columns are those of one of Determined's tables.
pub(super) fn is_table(columns: &[String]) -> bool {
    TABLES.iter().any(|table| table.iter().all(|name| columns.iter().any(|c| c == name)))
}

/// The names in a list with commas.
pub(super) fn columns(list: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(list);
    text.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

fn begins(text: &[u8]) -> bool {
    let squeezed: Vec<u8> =
        text[..text.len().min(1024)].iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let objects = squeezed.iter().position(|&byte| byte != b'[').unwrap_or(squeezed.len());
    let head = &squeezed[objects..];
    BEGINNINGS.iter().any(|beginning| head.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sniff_recognizes_each_form() {
        let long = "0.01,".repeat(20_000);
        for json in [
            "{\"result\":{\"labels\":[]}}",
            "{\n  \"result\": {\n    \"batch\": {\n      \"values\": [0",
            &format!("{{\"result\":{{\"batch\":{{\"values\":[{long}"),
            &format!("{{\"batches\": [{{\"values\": [{long}"),
            "{\"t\":1.5,\"method\":\"POST\",\"path\":\"/api/v1/trials/7/metrics\",\"body\":{}}",
            "{\"group\": \"cpu\", \"metrics\": {\"metrics\": {\"avgMetrics\": {}}, \"reportTime\": \"\"}}",
            "{\"trial_id\":1,\"end_time\":\"\",\"metrics\":{},\"metric_group\":\"cpu\"}",
            "[{\"trialId\": 1, \"endTime\": \"\", \"metrics\": {}, \"totalBatches\": 3}]",
            "{\"id\":1,\"values\":[1],\"batches\":[1],\"ts\":[]}",
            "{\"error\":{\"code\":5,\"reason\":\"NotFound\"}}",
        ] {
            assert_eq!(sniff(json.as_bytes()), Some(Form::Json), "{json:.60}");
        }
        for csv in [
            "id,values,batches,ts,labels\n",
            "id,\"values\",batches,ts,labels\r\n1,",
            "trial_id,end_time,metrics,total_batches,metric_group",
        ] {
            assert_eq!(sniff(csv.as_bytes()), Some(Form::Csv), "{csv}");
        }
        let block = "COPY public.system_metrics (trial_id, end_time) FROM stdin;\n";
        assert_eq!(sniff(block.as_bytes()), Some(Form::Dump));
        let dump =
            "--\n-- PostgreSQL database dump\n--\nCREATE TABLE public.trial_profiler_metrics";
        assert_eq!(sniff(dump.as_bytes()), Some(Form::Dump));
    }

    #[test]
    fn sniff_rejects_other_text() {
        for text in [
            "",
            "{}",
            "[1, 2]",
            "{\"a\": [1]}",
            "{\"error\": \"no\"}",
            "{\"error\":{\"code\":\"rate_limited\",\"message\":\"slow down\"}}",
            "{\"values\": [1, 2]}",
            "{\"result\": 1}",
            "step,loss\n1,2\n",
            "import torch",
        ] {
            assert_eq!(sniff(text.as_bytes()), None, "{text}");
            assert_eq!(unsupported_dump(text.as_bytes()), None, "{text}");
        }
        let dump = "--\n-- PostgreSQL database dump\n--\n";
        assert_eq!(sniff(dump.as_bytes()), None);
        assert_eq!(unsupported_dump(dump.as_bytes()), Some(UnsupportedFormat::OtherDump));
        let inserts = format!("{dump}INSERT INTO public.trial_profiler_metrics VALUES (1)");
        assert_eq!(sniff(inserts.as_bytes()), None);
        assert_eq!(unsupported_dump(inserts.as_bytes()), Some(UnsupportedFormat::DumpWithInserts));
    }
}
