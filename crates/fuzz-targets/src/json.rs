//! A JSON tree that preserves details parsers normalize: digits of numbers, escapes, and order and repetition of keys.

use std::fmt::Write as _;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// A number, a literal, or a string with its quotes and escapes, as written.
    Scalar(String),
    /// A list.
    List(Vec<Json>),
    /// Members in order. Keys keep their quotes and escapes, as written.
    Object(Vec<(String, Json)>),
}

/// Maximum nesting depth.
const MAX_DEPTH: usize = 100;

impl Json {
    /// Parses a text that consists of a single value. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let value = parser.value(MAX_DEPTH)?;
        parser.skip_space();
        parser.rest.is_empty().then_some(value)
    }

    /// Returns the JSON text without whitespace.
    pub fn text(&self) -> String {
        self.text_with_separators(",", ":")
    }

    /// Returns the JSON text with `space` between all tokens.
    pub fn text_with_space(&self, space: &str) -> String {
        let mut text = space.to_owned();
        let comma = format!(",{space}");
        let colon = format!("{space}:{space}");
        self.write(&mut text, space, &comma, &colon);
        text
    }

    /// Returns the JSON text with `comma` between items and `colon` between keys and values.
    pub fn text_with_separators(&self, comma: &str, colon: &str) -> String {
        let mut text = String::new();
        self.write(&mut text, "", comma, colon);
        text
    }

    fn write(&self, out: &mut String, space: &str, comma: &str, colon: &str) {
        match self {
            Self::Scalar(scalar) => out.push_str(scalar),
            Self::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { comma } else { space });
                    item.write(out, space, comma, colon);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { comma } else { space });
                    let _ = write!(out, "{key}{colon}");
                    value.write(out, space, comma, colon);
                }
                out.push('}');
            }
        }
        out.push_str(space);
    }

    /// Calls `visit` for this value and all nested values, outer ones first. Members are passed with their key.
    pub fn visit(&mut self, visit: &mut impl FnMut(Option<&str>, &mut Self)) {
        fn of<'a>(
            key: Option<&'a str>,
            value: &'a mut Json,
            visit: &mut impl FnMut(Option<&str>, &mut Json),
        ) {
            visit(key, value);
            match value {
                Json::Scalar(_) => {}
                Json::List(items) => {
                    for item in items {
                        of(None, item, visit);
                    }
                }
                Json::Object(members) => {
                    for (key, value) in members {
                        of(Some(key.trim_matches('"')), value, visit);
                    }
                }
            }
        }
        of(None, self, visit);
    }

    /// Returns the value of a member of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(name, _)| name.trim_matches('"') == key).map(|(_, value)| value)
    }

    /// Like [`Json::get`], but mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().find(|(name, _)| name.trim_matches('"') == key).map(|(_, value)| value)
    }

    /// Returns the text of a scalar.
    pub fn scalar(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text),
            Self::List(_) | Self::Object(_) => None,
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Skips whitespace, and takes the byte if it comes next.
    fn takes(&mut self, byte: char) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(byte);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        let depth = depth.checked_sub(1)?;
        if self.takes('[') {
            let mut items = Vec::new();
            while !self.takes(']') {
                if !items.is_empty() && !self.takes(',') {
                    return None;
                }
                items.push(self.value(depth)?);
            }
            return Some(Json::List(items));
        }
        if self.takes('{') {
            let mut members = Vec::new();
            while !self.takes('}') {
                if !members.is_empty() && !self.takes(',') {
                    return None;
                }
                self.skip_space();
                let key = self.string()?.to_owned();
                if !self.takes(':') {
                    return None;
                }
                members.push((key, self.value(depth)?));
            }
            return Some(Json::Object(members));
        }
        if self.rest.starts_with('"') {
            return Some(Json::Scalar(self.string()?.to_owned()));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        (end > 0).then(|| Json::Scalar(self.take(end).to_owned()))
    }

    /// Parses a string, including its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let mut is_escaped = false;
        if !self.rest.starts_with('"') {
            return None;
        }
        for (at, byte) in self.rest.bytes().enumerate().skip(1) {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => return Some(self.take(at + 1)),
                _ => {}
            }
        }
        None
    }
}
