//! The beginning of a file, and what else tells formats apart that begin alike.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::Read as _;

use flate2::bufread::DeflateDecoder;
use memchr::memmem;

use crate::input::limits::HEAD_BYTES;

/// First bytes of every `SQLite` database.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
/// First bytes of a file in a zip archive.
const ZIP_ENTRY_MAGIC: &[u8] = b"PK\x03\x04";
/// Text in front of the name of a table: a database contains the definitions of its tables as text.
const TABLE_DEFINITION: &[u8] = b"CREATE TABLE ";
/// Tables of a database that are looked at.
const MAX_TABLES: usize = 256;

/// The beginning of a file with its name, and the files beside it.
pub(crate) struct Head<'a> {
    /// Path relative to the run, with `/`.
    name: &'a str,
    /// First bytes, decompressed if the file is gzip.
    bytes: &'a [u8],
    /// Paths of the files that were listed with this one.
    listed: &'a [String],
    text: OnceCell<Cow<'a, [u8]>>,
    tables: OnceCell<Vec<String>>,
    zip_entry: OnceCell<Option<ZipEntry>>,
}

/// The first file in a zip archive.
#[derive(Debug)]
pub(crate) struct ZipEntry {
    /// Path in the archive.
    pub(crate) name: String,
    /// First bytes, decompressed.
    pub(crate) bytes: Vec<u8>,
}

impl<'a> Head<'a> {
    /// `bytes`: the first bytes of the file, at most [`HEAD_BYTES`], decompressed if the file is gzip.
    pub(crate) fn new(name: &'a str, bytes: &'a [u8]) -> Self {
        Self {
            name,
            bytes,
            listed: &[],
            text: OnceCell::new(),
            tables: OnceCell::new(),
            zip_entry: OnceCell::new(),
        }
    }

    /// The head with the paths of the files that were listed with this one.
    pub(crate) fn with_listing(self, listed: &'a [String]) -> Self {
        Self { listed, ..self }
    }

    /// The first bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// The first bytes as text: without a byte order mark and white space in front, and with plain letters where JSON escapes
    /// them.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let text = self.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(self.bytes);
            with_plain_letters(text.trim_ascii_start())
        })
    }

    /// Returns whether the text begins with this byte: `{` for an object of JSON, `[` for a list.
    pub(crate) fn begins_with(&self, byte: u8) -> bool {
        self.text().first() == Some(&byte)
    }

    /// Returns whether the text contains a string.
    pub(crate) fn has(&self, needle: &str) -> bool {
        memmem::find(self.text(), needle.as_bytes()).is_some()
    }

    /// Returns whether the text contains one of these strings.
    pub(crate) fn has_any(&self, needles: &[&str]) -> bool {
        needles.iter().any(|needle| self.has(needle))
    }

    /// Returns whether a file of this name lies in the same folder.
    pub(crate) fn has_sibling(&self, file: &str) -> bool {
        let folder = |path: &'a str| path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_it = |path: &String| path.rsplit('/').next() == Some(file);
        self.listed.iter().any(|path| is_it(path) && folder(path) == folder(self.name))
    }

    /// Names of the tables of a `SQLite` database, as far as its first bytes contain their definitions; none of another file.
    pub(crate) fn sqlite_tables(&self) -> &[String] {
        self.tables.get_or_init(|| {
            if !self.bytes.starts_with(SQLITE_MAGIC) {
                return Vec::new();
            }
            let names = memmem::find_iter(self.bytes, TABLE_DEFINITION)
                .filter_map(|at| table_name(&self.bytes[at + TABLE_DEFINITION.len()..]));
            names.take(MAX_TABLES).collect()
        })
    }

    /// Returns whether a `SQLite` database defines a table of this name in its first bytes.
    pub(crate) fn has_sqlite_table(&self, name: &str) -> bool {
        self.sqlite_tables().iter().any(|table| table == name)
    }

    /// Returns whether the file is a `SQLite` database.
    pub(crate) fn is_sqlite(&self) -> bool {
        self.bytes.starts_with(SQLITE_MAGIC)
    }

    /// The first file in a zip archive; `None` for another file, or if that file cannot be read.
    pub(crate) fn zip_entry(&self) -> Option<&ZipEntry> {
        self.zip_entry.get_or_init(|| ZipEntry::first(self.bytes)).as_ref()
    }
}

/// The name behind `CREATE TABLE`, with or without quotes.
fn table_name(text: &[u8]) -> Option<String> {
    let text = text.strip_prefix(b"IF NOT EXISTS ").unwrap_or(text);
    let text = text.strip_prefix(b"\"").or_else(|| text.strip_prefix(b"`")).unwrap_or(text);
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let length = text.iter().take_while(is_part).count();
    (length > 0).then(|| String::from_utf8_lossy(&text[..length]).into_owned())
}

impl ZipEntry {
    /// Reads the header of the first file (APPNOTE.TXT, 4.3.7) and inflates its beginning.
    fn first(archive: &[u8]) -> Option<Self> {
        const HEADER_BYTES: usize = 30;
        let header = archive.get(..HEADER_BYTES)?;
        let number = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        if !header.starts_with(ZIP_ENTRY_MAGIC) {
            return None;
        }
        let (method, name_bytes, extra_bytes) = (number(8), number(26), number(28));
        let name = archive.get(HEADER_BYTES..HEADER_BYTES + name_bytes)?;
        let data = archive.get(HEADER_BYTES + name_bytes + extra_bytes..)?;
        let bytes = match method {
            0 => data.to_vec(),
            8 => {
                let mut bytes = Vec::new();
                // The archive is cut at the end of the head: what was inflated up to there counts.
                let _ = DeflateDecoder::new(data).take(HEAD_BYTES as u64).read_to_end(&mut bytes);
                bytes
            }
            _ => Vec::new(),
        };
        Some(Self { name: String::from_utf8_lossy(name).into_owned(), bytes })
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
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    #[test]
    fn with_plain_letters_decodes_letters_and_digits_only() {
        let text = br#"{"trac\u0065Events": []}"#;
        assert_eq!(&*with_plain_letters(text), br#"{"traceEvents": []}"#);
        let text = br#"{"\u0022\u00zz\u004": 1}"#;
        assert_eq!(&*with_plain_letters(text), text);
    }

    #[test]
    fn sqlite_tables_are_those_that_the_head_defines() {
        let database = b"SQLite format 3\0 CREATE TABLE StringIds (id) CREATE TABLE IF NOT EXISTS \"rocpd_op\" (x)";
        let head = Head::new("a.sqlite", database);
        assert_eq!(head.sqlite_tables(), ["StringIds", "rocpd_op"]);
        assert!(head.has_sqlite_table("StringIds") && !head.has_sqlite_table("String"));
        assert!(Head::new("a.sql", b"CREATE TABLE t (x)").sqlite_tables().is_empty());
    }

    #[test]
    fn zip_entry_is_the_first_file() {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
        deflated.write_all(b"{\"traceEvents\": []}").unwrap();
        let deflated = deflated.finish().unwrap();
        for (method, data) in [(0_u8, b"{\"traceEvents\": []}".to_vec()), (8, deflated)] {
            let mut archive = b"PK\x03\x04".to_vec();
            archive.resize(30, 0);
            (archive[8], archive[26]) = (method, 5);
            archive.extend(b"a.jsn");
            archive.extend(data);
            let head = Head::new("a.zip", &archive);
            let entry = head.zip_entry().unwrap();
            assert_eq!(entry.name, "a.jsn");
            assert!(entry.bytes.starts_with(b"{\"traceEvents\": []}"), "method {method}");
            for length in 0..archive.len() {
                let _ = Head::new("a.zip", &archive[..length]).zip_entry();
            }
        }
        assert!(Head::new("a.zip", b"PK\x05\x06").zip_entry().is_none());
    }

    #[test]
    fn siblings_lie_in_the_same_folder() {
        let listed = ["x/a.parquet", "x/b.parquet", "c.parquet"].map(str::to_owned);
        let head = Head::new("x/a.parquet", b"PAR1").with_listing(&listed);
        assert!(head.has_sibling("b.parquet") && !head.has_sibling("c.parquet"));
    }
}
