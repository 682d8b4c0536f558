//! Rows of the tables in which Determined keeps metrics: CSV, and what `pg_dump` writes.

use std::io::{BufRead, Read};

use csv::{ByteRecord, ReaderBuilder};

use super::fields::Fields;
use super::metrics::{Metrics, Precision};
use super::sniff::{columns, is_table};
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, MAX_PIECE, StreamEnd};
use crate::input::text_reader::TextReader;
use crate::warnings::Issue;

/// Marks that `pg_dump` writes for a null, and after the last row.
const NULL: &[u8] = b"\\N";
const LAST: &[u8] = b"\\.";

impl Metrics {
    /// Reads a table with a header.
    pub(super) fn read_csv(
        &mut self,
        input: JsonInput,
        advance: &dyn Fn(u64),
    ) -> Result<(), Unreadable> {
        let mut bytes = TextReader::new(input, advance);
        let mut reader =
            ReaderBuilder::new().flexible(true).buffer_capacity(1 << 16).from_reader(&mut bytes);
        let names: Vec<String> = reader
            .byte_headers()
            .map_err(|_| Unreadable::NotJson)?
            .iter()
            .map(|name| String::from_utf8_lossy(name).trim().to_owned())
            .collect();
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record).unwrap_or(false) {
            if record.len() < names.len() {
                self.issues.add(Issue::MetricTable);
                continue;
            }
            self.row(&names, record.iter().map(Some));
        }
        drop(reader);
        self.finish(&bytes)
    }

    /// Reads the blocks of a dump that hold metrics.
    pub(super) fn read_dump(
        &mut self,
        input: JsonInput,
        advance: &dyn Fn(u64),
    ) -> Result<(), Unreadable> {
        let mut bytes = TextReader::new(input, advance);
        let mut line = Vec::new();
        // The columns of the block being read, if it is one of ours; empty for another's.
        let mut block: Option<Vec<String>> = None;
        let mut fields: Vec<Option<Vec<u8>>> = Vec::new();
        loop {
            line.clear();
            let read = bytes.by_ref().take(MAX_PIECE as u64).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                break;
            }
            let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
            let text = line.strip_suffix(b"\r").unwrap_or(&line);
            match &block {
                None => block = copied_columns(text),
                Some(_) if text == LAST => block = None,
                Some(names) if !names.is_empty() => {
                    fields.clear();
                    fields.extend(text.split(|&byte| byte == b'\t').map(unescape));
                    if fields.len() < names.len() || !is_whole {
                        self.issues.add(Issue::MetricTable);
                        continue;
                    }
                    self.row(names, fields.iter().map(Option::as_deref));
                }
                Some(_) => {}
            }
        }
        if block.is_some_and(|names| !names.is_empty()) {
            self.issues.add(Issue::MetricTable);
        }
        self.finish(&bytes)
    }

    fn row<'a>(&mut self, names: &[String], values: impl Iterator<Item = Option<&'a [u8]>>) {
        let mut fields = Fields::default();
        for (name, value) in names.iter().zip(values) {
            if let Some(value) = value {
                fields.set(name.as_bytes(), value);
            }
        }
        if fields.values.is_empty() {
            self.report(&fields);
        } else {
            self.values(&fields, Some((true, Precision::Single)));
        }
    }

    fn finish(&mut self, bytes: &TextReader<'_>) -> Result<(), Unreadable> {
        self.bytes = bytes.total_bytes();
        match bytes.end() {
            StreamEnd::TooLong => return Err(Unreadable::TooLong),
            StreamEnd::Damaged => self.issues.add(Issue::TruncatedGzip),
            StreamEnd::NotYet | StreamEnd::Complete => {}
        }
        Ok(())
    }
}

/// The columns of the block that a line begins: none if it begins none, empty ones if it is not a table of ours.
fn copied_columns(line: &[u8]) -> Option<Vec<String>> {
    let rest = line.strip_prefix(b"COPY ")?.strip_suffix(b" FROM stdin;")?;
    let open = memchr::memchr(b'(', rest)?;
    let names = columns(rest[open + 1..].strip_suffix(b")")?);
    Some(if is_table(&names) { names } else { Vec::new() })
}

/// A value of a row, `\t` and the like resolved; none where it is absent.
fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    if field == NULL {
        return None;
    }
    let mut value = Vec::with_capacity(field.len());
    let mut bytes = field.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        let Some(byte) = bytes.next() else { break };
        let mut number = |first: u32, base: u32, digits: usize| {
            let mut number = first;
            for _ in 0..digits {
                let digit = bytes.peek().and_then(|&byte| char::from(byte).to_digit(base));
                let Some(digit) = digit else { break };
                number = number * base + digit;
                bytes.next();
            }
            number as u8
        };
        value.push(match byte {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => number(u32::from(byte - b'0'), 8, 2),
            b'x' => number(0, 16, 2),
            other => other,
        });
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_values_are_unescaped() {
        assert_eq!(unescape(b"\\N"), None);
        assert_eq!(unescape(b""), Some(Vec::new()));
        assert_eq!(unescape(b"a\\tb\\\\c\\n\\101\\x41\\q\\"), Some(b"a\tb\\c\nAAq".to_vec()));
        assert_eq!(unescape(b"\\777\\x"), Some(vec![0xFF, 0]));
    }

    #[test]
    fn dump_blocks_are_recognized_by_their_columns() {
        let ours =
            b"COPY public.trial_profiler_metrics (id, \"values\", batches, ts, labels) FROM stdin;";
        assert_eq!(copied_columns(ours).unwrap()[1], "values");
        let other = b"COPY public.users (id, name) FROM stdin;";
        assert_eq!(copied_columns(other), Some(Vec::new()));
        assert_eq!(copied_columns(b"SELECT 1;"), None);
    }
}
