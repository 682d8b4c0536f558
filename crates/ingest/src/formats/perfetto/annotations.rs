//! Arguments of track events ("debug annotations") as JSON text.

use super::drafts::{Drafts, Key, Text};
use super::interned::{Interned, Texts};
use super::text::{
    needs_escape, push_decimal, push_inside_quotes, push_integer, push_natural, push_string,
};
use super::wire::{Fields, Malformed, Value};
use crate::warnings::{Issue, Issues};

/// Maximum depth of nested lists and dictionaries that are read.
const MAX_DEPTH: usize = 32;

/// The text that PyTorch writes for a missing value.
const NULL: &[u8] = b"null";

/// An annotation in its wire format.
#[derive(Debug, Clone, Copy, Default)]
struct Annotation<'w> {
    name: Option<&'w [u8]>,
    name_iid: Option<u64>,
    value: Content<'w>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Content<'w> {
    /// An empty list, or an empty dictionary.
    #[default]
    Nothing,
    Bool(bool),
    Natural(u64),
    Integer(i64),
    Decimal(f64),
    Text(&'w [u8]),
    InternedText(u64),
    Json(&'w [u8]),
    List,
    Dictionary,
    /// A message of any type, or an encoding that Perfetto no longer uses.
    Other,
}

impl<'w> Annotation<'w> {
    fn read(bytes: &'w [u8]) -> Result<Self, Malformed> {
        let mut annotation = Self::default();
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            let content = match (number, value) {
                (1, Value::Varint(iid)) => {
                    annotation.name_iid = Some(iid);
                    continue;
                }
                (10, Value::Bytes(name)) => {
                    annotation.name = Some(name);
                    continue;
                }
                (2, Value::Varint(value)) => Content::Bool(value != 0),
                (3 | 7, Value::Varint(value)) => Content::Natural(value),
                (4, Value::Varint(value)) => Content::Integer(value as i64),
                (5, Value::Fixed64(bits)) => Content::Decimal(f64::from_bits(bits)),
                (6, Value::Bytes(text)) => Content::Text(text),
                (9, Value::Bytes(json)) => Content::Json(json),
                (11, Value::Bytes(_)) => Content::Dictionary,
                (12, Value::Bytes(_)) => Content::List,
                (17, Value::Varint(iid)) => Content::InternedText(iid),
                (8 | 14, Value::Bytes(_)) => Content::Other,
                _ => continue,
            };
            annotation.value = content;
        }
        Ok(annotation)
    }

    fn name(&self, names: &'w Texts) -> Option<&'w [u8]> {
        self.name.or_else(|| names.get(&self.name_iid?).map(|name| &**name))
    }
}

/// Returns the name of an annotation, if it has one.
pub(super) fn name<'w>(
    annotation: &'w [u8],
    interned: &'w Interned,
) -> Result<Option<&'w [u8]>, Malformed> {
    Ok(Annotation::read(annotation)?.name(&interned.annotation_names))
}

/// Adds an annotation as an argument of the current event.
pub(super) fn add<'w>(
    bytes: &'w [u8],
    interned: &'w Interned,
    drafts: &mut Drafts<'w>,
) -> Result<(), Malformed> {
    let annotation = Annotation::read(bytes)?;
    let Some(name) = annotation.name(&interned.annotation_names) else {
        drafts.issues.add(Issue::MissingDeclaration);
        return Ok(());
    };
    let key = drafts.key(name);
    let start = drafts.text.len();
    push_value(&annotation, bytes, interned, &mut drafts.text, &mut drafts.issues, 0)?;
    let value = start..drafts.text.len();
    let is_known = matches!(key, Key::Known(_));
    if !(is_known && &drafts.text[value.clone()] == NULL) {
        drafts.args.push((key, Text::Made(value)));
    }
    Ok(())
}

/// Appends the value of an annotation. `bytes` is the whole annotation.
fn push_value(
    annotation: &Annotation<'_>,
    bytes: &[u8],
    interned: &Interned,
    text: &mut Vec<u8>,
    issues: &mut Issues,
    depth: usize,
) -> Result<(), Malformed> {
    match annotation.value {
        Content::Nothing => text.extend_from_slice(b"[]"),
        Content::Bool(true) => text.extend_from_slice(b"true"),
        Content::Bool(false) => text.extend_from_slice(b"false"),
        Content::Natural(value) => push_natural(text, value),
        Content::Integer(value) => push_integer(text, value),
        Content::Decimal(value) => push_decimal(text, value),
        Content::Text(NULL) => text.extend_from_slice(NULL),
        Content::Text(string) => push_string(text, string),
        Content::InternedText(iid) => {
            if let Some(string) = interned.strings.get(&iid) {
                push_string(text, string);
            } else {
                issues.add(Issue::MissingDeclaration);
                text.extend_from_slice(NULL);
            }
        }
        Content::Json(json) if is_json(json) => text.extend_from_slice(json.trim_ascii()),
        Content::Json(json) => push_string(text, json),
        Content::List | Content::Dictionary if depth < MAX_DEPTH => {
            let is_list = matches!(annotation.value, Content::List);
            push_entries(bytes, is_list, interned, text, issues, depth + 1)?;
        }
        Content::List | Content::Dictionary | Content::Other => {
            issues.add(Issue::DeepArgument);
            text.extend_from_slice(NULL);
        }
    }
    Ok(())
}

/// Appends a list or a dictionary with the white space that PyTorch writes.
fn push_entries(
    bytes: &[u8],
    is_list: bool,
    interned: &Interned,
    text: &mut Vec<u8>,
    issues: &mut Issues,
    depth: usize,
) -> Result<(), Malformed> {
    let (field, open, close) = if is_list { (12, b'[', b']') } else { (11, b'{', b'}') };
    text.push(open);
    let mut is_first = true;
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        let Value::Bytes(entry) = value else { continue };
        if number != field {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            text.extend_from_slice(b", ");
        }
        let annotation = Annotation::read(entry)?;
        if !is_list {
            push_key(annotation.name(&interned.annotation_names).unwrap_or_default(), text);
        }
        push_value(&annotation, entry, interned, text, issues, depth)?;
    }
    text.push(close);
    Ok(())
}

fn push_key(name: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    if name.iter().any(|&byte| needs_escape(byte)) {
        push_inside_quotes(text, name);
    } else {
        text.extend_from_slice(name);
    }
    text.extend_from_slice(b"\": ");
}

/// Returns whether a text is exactly one JSON value.
fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}
