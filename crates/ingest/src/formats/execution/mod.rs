//! PyTorch execution traces, as `torch.profiler.ExecutionTraceObserver` writes them: which operators
//! ran, inside what, with which arguments; no times. One file from text to rows.

mod attachment;
mod importer;
mod link;
mod node;

use rustc_hash::FxHashSet;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{ExecutionNode, ExecutionNodes};
use trace_model::{StrId, Strings, Warning};

use self::node::{Field, Node, unquoted};
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::json::canonical::canonical;
use crate::json::lexer::{LexError, Lexer, RawStr};
use crate::json::number;
use crate::json::stream::Text;
use crate::quantity::RawInteger;
use crate::warnings::{Issue, Issues};

pub(crate) use importer::ExecutionTrace;

/// One execution trace, read.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) nodes: ExecutionNodes,
    pub(crate) strings: Strings,
    /// Process that was recorded, as the file states.
    pub(crate) pid: Option<i64>,
    pub(crate) json_bytes: u64,
    ids: FxHashSet<i64>,
    issues: Issues,
}

/// The next part of the top-level object.
enum Member {
    Nodes,
    Entry(String, Vec<u8>),
    Closed,
}

/// The next part of the list of nodes.
enum Entry {
    Node,
    NotANode,
    Closed,
}

/// Reads an execution trace. Calls `advance` with the number of JSON bytes read since the last call.
pub(crate) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<Recording, Unreadable> {
    let mut text = Text::new(input, advance)?;
    let mut recording = Recording::default();
    text.next(|lexer| lexer.expect(b'{'))?.map_err(|_| Unreadable::NotJson)?;
    let mut has_nodes = false;
    loop {
        match text.next(member)? {
            Ok(Member::Nodes) => {
                has_nodes = true;
                if !recording.read_nodes(&mut text)? {
                    break;
                }
            }
            Ok(Member::Entry(key, value)) => {
                if key == "pid" {
                    recording.pid = number::id(&value);
                }
            }
            Ok(Member::Closed) => break,
            Err(error) => {
                recording.issues.add(match error {
                    LexError::End => Issue::TruncatedJson,
                    LexError::Syntax => Issue::UnreadableMetadata,
                });
                break;
            }
        }
    }
    if !has_nodes {
        return Err(Unreadable::NoNodes);
    }
    if text.end() == StreamEnd::Damaged {
        recording.issues.add(Issue::TruncatedGzip);
    }
    recording.json_bytes = text.json_bytes();
    Ok(recording)
}

fn member(lexer: &mut Lexer<'_>) -> Result<Member, LexError> {
    match lexer.peek()? {
        b'}' => return Ok(Member::Closed),
        b',' => lexer.bump(),
        _ => {}
    }
    let key = lexer.string()?.decode().0.into_owned();
    lexer.expect(b':')?;
    if key == "nodes" && lexer.peek()? == b'[' {
        lexer.bump();
        return Ok(Member::Nodes);
    }
    Ok(Member::Entry(key, lexer.value()?.to_vec()))
}

impl Recording {
    /// Reads the list of nodes; false if the text ends before it does.
    fn read_nodes(&mut self, text: &mut Text<'_>) -> Result<bool, Unreadable> {
        loop {
            let entry = text.next(|lexer| {
                while lexer.peek()? == b',' {
                    lexer.bump();
                }
                match lexer.peek()? {
                    b']' => {
                        lexer.bump();
                        Ok(Entry::Closed)
                    }
                    b'{' => {
                        let node = Node::read(lexer)?;
                        Ok(if self.add(&node) { Entry::Node } else { Entry::NotANode })
                    }
                    _ => lexer.value().map(|_| Entry::NotANode),
                }
            })?;
            match entry {
                Ok(Entry::Node) => {}
                Ok(Entry::NotANode) => self.issues.add(Issue::NotANode),
                Ok(Entry::Closed) => return Ok(true),
                Err(LexError::Syntax) => {
                    self.issues.add(Issue::MalformedNode);
                    if text.next(skip_to_node)?.is_err() {
                        return Ok(false);
                    }
                }
                Err(LexError::End) => {
                    self.issues.add(Issue::TruncatedJson);
                    return Ok(false);
                }
            }
        }
    }

    /// Adds a node; false if it has no id.
    fn add(&mut self, node: &Node<'_>) -> bool {
        let node_id = node.get(Field::Id).and_then(number::id);
        let Some(node_id) = node_id else { return false };
        if !self.ids.insert(node_id) {
            self.issues.add(Issue::DuplicateNode);
            return true;
        }
        let parent = self.raw_id(node, Field::Parent);
        let row = ExecutionNode {
            node_id,
            name: self.text(node, Field::Name),
            parent: if parent == node_id { NULL_I64 } else { parent },
            rf_id: self.id(node, Field::RfId),
            fw_parent: self.id(node, Field::FwParent),
            seq_id: match self.raw_id(node, Field::SeqId) {
                -1 => NULL_I64,
                id => id,
            },
            scope: self.number(node, Field::Scope),
            tid: self.raw_id(node, Field::Tid),
            fw_tid: self.id(node, Field::FwTid),
            op_schema: self.text(node, Field::OpSchema),
            kernel_backend: self.text(node, Field::KernelBackend),
            kernel_file: self.text(node, Field::KernelFile),
            input_shapes: self.json(node, Field::InputShapes),
            input_types: self.json(node, Field::InputTypes),
            input_strides: self.json(node, Field::InputStrides),
            output_shapes: self.json(node, Field::OutputShapes),
            output_types: self.json(node, Field::OutputTypes),
            output_strides: self.json(node, Field::OutputStrides),
            ..ExecutionNode::null_row()
        };
        self.nodes.push(row);
        self.nodes.inputs.extend_last(&list_text(node, Field::Inputs));
        self.nodes.outputs.extend_last(&list_text(node, Field::Outputs));
        for (i, (key, value)) in node.others.iter().enumerate() {
            let args = &mut self.nodes.args;
            args.extend_last(if i == 0 { "{\"" } else { ",\"" });
            args.extend_last(&String::from_utf8_lossy(key));
            args.extend_last("\":");
            args.extend_last(&String::from_utf8_lossy(value));
        }
        if !node.others.is_empty() {
            self.nodes.args.extend_last("}");
        }
        true
    }

    /// An integer; `None` if it is missing, or not within the bounds of its kind, which is counted.
    fn integer<T>(
        &mut self,
        node: &Node<'_>,
        field: Field,
        convert: impl FnOnce(RawInteger) -> Option<T>,
    ) -> Option<T> {
        let raw = node.get(field).filter(|raw| !matches!(*raw, b"null" | b"[]"))?;
        // Chakra's own tools write a list of dependencies, of one.
        let one = raw.strip_prefix(b"[").and_then(|r| r.strip_suffix(b"]")).unwrap_or(raw);
        let value = number::integer(one.trim_ascii()).and_then(convert);
        if value.is_none() {
            self.issues.add(Issue::BadNumber);
        }
        value
    }

    fn raw_id(&mut self, node: &Node<'_>, field: Field) -> i64 {
        self.integer(node, field, RawInteger::id).unwrap_or(NULL_I64)
    }

    /// An id, for which 0 is null.
    fn id(&mut self, node: &Node<'_>, field: Field) -> i64 {
        match self.raw_id(node, field) {
            0 => NULL_I64,
            id => id,
        }
    }

    fn number(&mut self, node: &Node<'_>, field: Field) -> i32 {
        self.integer(node, field, RawInteger::number).unwrap_or(NULL_I32)
    }

    /// A string. Empty strings and other values are null.
    fn text(&mut self, node: &Node<'_>, field: Field) -> StrId {
        let Some(bytes) = node.get(field).and_then(unquoted).filter(|b| !b.is_empty()) else {
            return StrId::NULL;
        };
        let (text, bad) = RawStr { bytes, escaped: bytes.contains(&b'\\') }.decode();
        if bad {
            self.issues.add(Issue::BadUtf8);
        }
        self.strings.intern(&text)
    }

    /// A list as JSON text; an empty one is absent.
    fn json(&mut self, node: &Node<'_>, field: Field) -> StrId {
        let text = list_text(node, field);
        if text.is_empty() { StrId::NULL } else { self.strings.intern(&text) }
    }

    /// Problems in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        self.issues.warnings(file)
    }
}

fn list_text(node: &Node<'_>, field: Field) -> String {
    let text = canonical(node.get(field).unwrap_or_default());
    match &*text {
        b"[]" | b"null" => String::new(),
        text => String::from_utf8_lossy(text).into_owned(),
    }
}

/// Moves to the next object that is a node: attributes of a broken one look like objects of a list too.
fn skip_to_node(lexer: &mut Lexer<'_>) -> Result<(), LexError> {
    loop {
        lexer.skip_to_object()?;
        let mut ahead = lexer.clone();
        match Node::read(&mut ahead) {
            Ok(node) if node.get(Field::Id).is_some() => return Ok(()),
            Ok(_) | Err(LexError::Syntax) => {}
            Err(LexError::End) => return Err(LexError::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"{"schema":"1","pid":7,"nodes":[{"id":1,"name":"a","ctrl_deps":1,
        "inputs":{"values":[[1,"x"]],"shapes":[[2]]},"attrs":[{"name":"rf_id","value":3}]},
        {"id":2,"parent":1,"rf_id":4,"inputs":[],"more":{}}],"finish_ts":2}"#;

    fn rows(text: &[u8]) -> Option<usize> {
        read(JsonInput::Whole(text.to_vec()), &|_| {}).ok().map(|recording| recording.nodes.len())
    }

    proptest! {
        #[test]
        fn damage_never_panics_and_never_invents(
            at in 0..TEXT.len(),
            bytes in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            let mut text = TEXT.as_bytes().to_vec();
            let end = (at + bytes.len()).min(text.len());
            text.splice(at..end, bytes.iter().copied());
            prop_assert!(rows(&text).is_none_or(|rows| rows <= 2));
        }

        #[test]
        fn anything_may_be_in_the_list(tail in ".{0,200}") {
            let _ = rows(format!("{{\"nodes\":[{tail}").as_bytes());
        }
    }

    #[test]
    fn damaged_nodes_parse_when_undamaged() {
        assert_eq!(rows(TEXT.as_bytes()), Some(2));
    }
}
