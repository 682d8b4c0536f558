//! A pull lexer over JSON text: strings and values come back as slices of the input.
//!
//! General parsers do not provide the two things that ingest needs most: numbers as text (a decimal microsecond at
//! 1.7e15 does not fit an `f64`), and values that are skipped or kept raw without being built. It is lenient where profilers are: bare words (`NaN`, `N/A`) pass
//! as values, control characters pass inside strings.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};
use wide::u8x16;

/// Arrays and objects nested deeper than this are refused: no profiler writes them, and the check
/// bounds what hostile input can cost.
const MAX_DEPTH: u32 = 256;

/// Reason for which lexing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LexError {
    /// The text ends inside a value: more input may complete it.
    End,
    /// The text cannot be JSON from here on.
    Syntax,
}

/// A string as it stands between its quotes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RawStr<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) escaped: bool,
}

impl<'a> RawStr<'a> {
    /// Wraps the text between the quotes of a string, and detects whether it contains escapes.
    pub(crate) fn escaped_if_needed(bytes: &'a [u8]) -> Self {
        Self { bytes, escaped: bytes.contains(&b'\\') }
    }

    /// The text with escapes resolved; invalid UTF-8 and lone surrogates become U+FFFD, and the
    /// flag says so.
    pub(crate) fn decode(self) -> (Cow<'a, str>, bool) {
        let text = String::from_utf8_lossy(self.bytes);
        let lossy = matches!(text, Cow::Owned(_));
        if !self.escaped {
            return (text, lossy);
        }
        let (text, bad_escape) = unescape(&text);
        (Cow::Owned(text), lossy || bad_escape)
    }

    /// Returns the bytes with escapes resolved, for comparison with a key.
    #[inline]
    pub(crate) fn unescaped(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.bytes);
        }
        Cow::Owned(self.decode().0.into_owned().into_bytes())
    }
}

fn unescape(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let mut bad = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let unit = hex4(&mut chars);
                let decoded = match unit {
                    Some(high @ 0xD800..=0xDBFF) => {
                        let mut ahead = chars.clone();
                        let low = (ahead.next() == Some('\\') && ahead.next() == Some('u'))
                            .then(|| hex4(&mut ahead))
                            .flatten();
                        match low {
                            Some(low @ 0xDC00..=0xDFFF) => {
                                chars = ahead;
                                char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                            }
                            _ => None,
                        }
                    }
                    Some(unit) => char::from_u32(unit),
                    None => None,
                };
                bad |= decoded.is_none();
                out.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => bad = true,
        }
    }
    (out, bad)
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    let mut value = 0;
    for _ in 0..4 {
        value = value * 16 + chars.next()?.to_digit(16)?;
    }
    Some(value)
}

/// Position in a text.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    pos: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8], pos: usize) -> Self {
        Self { text, pos }
    }

    /// Bytes consumed.
    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    /// The text from here on.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.pos..]
    }

    /// `len` bytes of the text before the current position, from `back` bytes before it.
    #[inline]
    pub(crate) fn before(&self, back: usize, len: usize) -> &'a [u8] {
        let from = self.pos - back;
        &self.text[from..from + len]
    }

    /// Consumes bytes that are known to be there.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.pos += bytes;
    }

    /// The next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, LexError> {
        while let Some(&b) = self.text.get(self.pos) {
            if b > b' ' {
                return Ok(b);
            }
            self.pos += 1;
        }
        Err(LexError::End)
    }

    /// Consumes the byte that [`Lexer::peek`] returned.
    #[inline]
    pub(crate) fn bump(&mut self) {
        self.pos += 1;
    }

    /// Consumes `byte`, after white space.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), LexError> {
        if self.peek()? == byte {
            self.pos += 1;
            Ok(())
        } else {
            Err(LexError::Syntax)
        }
    }

    /// A string, opening quote included.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<RawStr<'a>, LexError> {
        self.expect(b'"')?;
        let start = self.pos;
        let mut escaped = false;
        loop {
            let at = find_quote_or_backslash(&self.text[self.pos..]).ok_or(LexError::End)?;
            self.pos += at;
            if self.text[self.pos] == b'"' {
                let bytes = &self.text[start..self.pos];
                self.pos += 1;
                return Ok(RawStr { bytes, escaped });
            }
            escaped = true;
            self.pos += 2; // the escaped character cannot end the string
            if self.pos > self.text.len() {
                return Err(LexError::End);
            }
        }
    }

    /// Any value, as the text it is written in.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a [u8], LexError> {
        self.value_or_string().map(|(text, _)| text)
    }

    /// The same; of a string also whether something in it is escaped.
    #[inline]
    pub(crate) fn value_or_string(&mut self) -> Result<(&'a [u8], bool), LexError> {
        let first = self.peek()?;
        let start = self.pos;
        let mut escaped = false;
        match first {
            b'"' => escaped = self.string()?.escaped,
            b'{' | b'[' => self.skip_nested()?,
            b',' | b'}' | b']' | b':' => return Err(LexError::Syntax),
            _ => self.pos += word_len(&self.text[start..]).ok_or(LexError::End)?,
        }
        Ok((&self.text[start..self.pos], escaped))
    }

    /// As [`Lexer::value`], of a value that must end on the line that it begins on.
    pub(crate) fn value_on_line(&mut self) -> Result<&'a [u8], LexError> {
        self.peek()?;
        let end = memchr(b'\n', &self.text[self.pos..]).map(|at| self.pos + at);
        let text = &self.text[..end.unwrap_or(self.text.len())];
        let mut line = Self { text, pos: self.pos };
        let value = line.value().map_err(|error| match end {
            Some(_) => LexError::Syntax,
            None => error,
        })?;
        self.pos = line.pos;
        Ok(value)
    }

    /// Passes over what comes next, up to the next line that begins with an object.
    pub(crate) fn skip_to_line(&mut self) -> Result<(), LexError> {
        self.peek()?; // the break before this line is none after it
        let at = memmem::find(&self.text[self.pos..], b"\n{").ok_or(LexError::End)?;
        self.pos += at + 1;
        Ok(())
    }

    /// Reads an object: `member` is called at each value, with its key, and consumes it.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, RawStr<'a>) -> Result<(), LexError>,
    ) -> Result<(), LexError> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.bump();
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, key)?;
            match self.peek()? {
                b',' => self.bump(),
                b'}' => {
                    self.bump();
                    return Ok(());
                }
                _ => return Err(LexError::Syntax),
            }
        }
    }

    /// Moves to the next place that looks like the start of an object in a list: `}`, `,`, `{`, `"`
    /// with nothing but white space between.
    pub(crate) fn skip_to_object(&mut self) -> Result<(), LexError> {
        let skip_blank = |mut i: usize| {
            while self.text.get(i).is_some_and(u8::is_ascii_whitespace) {
                i += 1;
            }
            i
        };
        let mut at = self.pos;
        loop {
            let rest = self.text.get(at..).ok_or(LexError::End)?;
            at += memchr(b'}', rest).ok_or(LexError::End)? + 1;
            let comma = skip_blank(at);
            if self.text.get(comma) != Some(&b',') {
                continue;
            }
            let brace = skip_blank(comma + 1);
            if self.text.get(brace) == Some(&b'{')
                && self.text.get(skip_blank(brace + 1)) == Some(&b'"')
            {
                self.pos = brace;
                return Ok(());
            }
        }
    }

    fn skip_nested(&mut self) -> Result<(), LexError> {
        let mut depth = 0_u32;
        let mut in_string = false;
        loop {
            let chunk = Chunk::at(self.text, self.pos);
            let escapes = chunk.equal(b'\\');
            // Brackets are braces but for one bit, and nothing else is.
            let folded = chunk.with_bits(0x20);
            let mut hits = escapes | chunk.equal(b'"') | folded.equal(b'{') | folded.equal(b'}');
            let mut next = self.pos + Chunk::LEN;
            while hits != 0 {
                let at = self.pos + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                match self.text[at] {
                    b'"' => in_string = !in_string,
                    b'\\' if in_string => {
                        // What is escaped ends nothing.
                        next = at + 2;
                        break;
                    }
                    b'\\' => {}
                    _ if in_string => {}
                    b'{' | b'[' => {
                        depth += 1;
                        if depth > MAX_DEPTH {
                            return Err(LexError::Syntax);
                        }
                    }
                    _ => {
                        depth -= 1;
                        if depth == 0 {
                            self.pos = at + 1;
                            return Ok(());
                        }
                    }
                }
            }
            if next > self.text.len() {
                return Err(LexError::End);
            }
            self.pos = next;
        }
    }
}

/// Sixteen bytes of a text, compared all at once; zeros behind its end. Masks have a bit for each byte.
#[derive(Clone, Copy)]
struct Chunk(u8x16);

impl Chunk {
    const LEN: usize = 16;

    #[inline]
    fn at(text: &[u8], at: usize) -> Self {
        let rest = text.get(at..).unwrap_or_default();
        Self(u8x16::new(rest.first_chunk().copied().unwrap_or_else(|| {
            let mut padded = [0; Self::LEN];
            padded[..rest.len()].copy_from_slice(rest);
            padded
        })))
    }

    #[inline]
    fn equal(self, byte: u8) -> u32 {
        self.0.simd_eq(u8x16::splat(byte)).to_bitmask()
    }

    #[inline]
    fn up_to(self, byte: u8) -> u32 {
        self.0.min(u8x16::splat(byte)).simd_eq(self.0).to_bitmask()
    }

    #[inline]
    fn with_bits(self, bits: u8) -> Self {
        Self(self.0 | u8x16::splat(bits))
    }
}

/// Length of a number or another bare word: up to what ends it.
#[inline]
fn word_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let chunk = Chunk::at(text, at);
        let ends = chunk.equal(b',') | chunk.equal(b':') | chunk.equal(b'"');
        // Brackets are braces but for one bit, and nothing else is.
        let ends = ends | chunk.with_bits(0x20).equal(b'}') | chunk.up_to(b' ');
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize).filter(|&len| len < text.len());
        }
        at += Chunk::LEN;
    }
}

/// Offset of the first `"` or `\`. Keys are a few bytes long and call stacks a few hundred: sixteen
/// bytes at a time for the former, the wider search of `memchr` for the latter.
#[inline]
fn find_quote_or_backslash(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < 64 && at + Chunk::LEN <= text.len() {
        let chunk = Chunk::at(text, at);
        let hits = chunk.equal(b'"') | chunk.equal(b'\\');
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize);
        }
        at += Chunk::LEN;
    }
    memchr2(b'"', b'\\', &text[at..]).map(|i| at + i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn string_ends_at_its_own_quote() {
        let mut lexer = Lexer::new(br#"  "a\"b\\" rest"#, 0);
        let raw = lexer.string().unwrap();
        assert_eq!(raw.decode(), (Cow::Owned(r#"a"b\"#.to_owned()), false));
        assert_eq!(lexer.peek(), Ok(b'r'));
    }

    #[test]
    fn string_without_an_end_needs_more_text() {
        for text in [&br#""abc"#[..], br#""abc\"#, br#""abc\""#, b"\"", b""] {
            assert_eq!(Lexer::new(text, 0).string().unwrap_err(), LexError::End, "{text:?}");
        }
    }

    #[test]
    fn decode_pairs_or_replaces_surrogates() {
        let raw = |s: &'static str| RawStr { bytes: s.as_bytes(), escaped: true }.decode();
        assert_eq!(raw(r"\ud83d\ude00"), (Cow::Owned("\u{1f600}".to_owned()), false));
        assert_eq!(raw(r"\ud83dx"), (Cow::Owned("\u{fffd}x".to_owned()), true));
        assert_eq!(raw(r"\u00e9"), (Cow::Owned("\u{e9}".to_owned()), false));
    }

    #[test]
    fn value_returns_the_complete_slice() {
        let text = br#" [1, {"a": "]"}] , NaN}"#;
        let mut lexer = Lexer::new(text, 0);
        assert_eq!(lexer.value().unwrap(), br#"[1, {"a": "]"}]"#);
        lexer.expect(b',').unwrap();
        assert_eq!(lexer.value().unwrap(), b"NaN");
    }

    #[test]
    fn value_without_an_end_needs_more_text() {
        let text = b"{\"a\": [1\n{\"b\": 2}\n{\"c\": ";
        let mut lexer = Lexer::new(text, 0);
        assert_eq!(lexer.value(), Err(LexError::End));
        let mut lexer = Lexer::new(text, 0);
        assert_eq!(lexer.value_on_line(), Err(LexError::Syntax));
        lexer.skip_to_line().unwrap();
        assert_eq!(lexer.value_on_line().unwrap(), b"{\"b\": 2}");
        assert_eq!(lexer.value_on_line(), Err(LexError::End), "more text may complete it");
    }

    #[test]
    fn value_ignores_brackets_in_strings_across_chunks() {
        for blanks in 0..40 {
            let value = format!(r#"[{:blanks$}"\"]\\", {{"a": ["}}"]}}, "\\"]"#, "");
            let text = format!("{value}, 1");
            assert_eq!(Lexer::new(text.as_bytes(), 0).value(), Ok(value.as_bytes()), "{text}");
            for cut in 1..value.len() {
                let cut = Lexer::new(&value.as_bytes()[..cut], 0).value();
                assert_eq!(cut, Err(LexError::End), "{text}");
            }
        }
    }

    #[test]
    fn value_ends_bare_words_at_delimiters() {
        for len in 1..40 {
            let word = "7".repeat(len);
            for end in [",", "}", "]", ":", "\"", " ", "\n", "\t"] {
                let text = format!("{word}{end}");
                assert_eq!(Lexer::new(text.as_bytes(), 0).value(), Ok(word.as_bytes()), "{text}");
            }
            assert_eq!(Lexer::new(word.as_bytes(), 0).value(), Err(LexError::End));
        }
    }

    #[test]
    fn value_bounds_nesting() {
        let deep = vec![b'['; 100_000];
        assert_eq!(Lexer::new(&deep, 0).value(), Err(LexError::Syntax));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_on_strings(s in ".{0,80}") {
            let json = serde_json::to_string(&s).unwrap();
            let mut lexer = Lexer::new(json.as_bytes(), 0);
            let (text, lossy) = lexer.string().unwrap().decode();
            prop_assert_eq!(&*text, &s);
            prop_assert!(!lossy);
            prop_assert_eq!(lexer.pos(), json.len());
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lexer = Lexer::new(&bytes, 0);
            while lexer.value().is_ok() && lexer.peek().is_ok() {
                lexer.bump();
            }
        }
    }
}
