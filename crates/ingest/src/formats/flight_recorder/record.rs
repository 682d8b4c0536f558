//! One entry of a dump: a collective, a send or a receive.

use std::fmt::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::column::NULL_I64;
use trace_model::tables::{FlightRecord, FlightRecords};
use trace_model::{StrId, Strings};

use super::groups::Members;
use super::node::Node;
use crate::formats::memory::snapshot::is_user;
use crate::formats::pickle::ObjectId;
use crate::quantity::RawInteger;
use crate::warnings::{Issue, Issues};

/// Frames of a stack that are kept.
const MAX_FRAMES: usize = 64;

/// The frame that called, and the stack around it.
#[derive(Debug, Clone, Copy)]
struct Stack {
    text: StrId,
    file: StrId,
    line: i64,
    function: StrId,
}

const NO_STACK: Stack =
    Stack { text: StrId::NULL, file: StrId::NULL, line: NULL_I64, function: StrId::NULL };

/// Sizes of tensors as text, and the number of their elements.
struct Sizes {
    text: StrId,
    elements: i64,
}

/// Reads entries. A pickle may use one container in many places, so that what is read is counted.
pub(super) struct RecordReader<'a> {
    members: &'a Members,
    used: FxHashSet<ObjectId>,
    stacks: FxHashMap<ObjectId, Stack>,
    /// Values that may still be read: more than a dump of this length has.
    left: u64,
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(members: &'a Members, bytes: u64) -> Self {
        let left = bytes.saturating_mul(2).saturating_add(1024);
        Self { members, used: FxHashSet::default(), stacks: FxHashMap::default(), left }
    }

    /// Adds the row of an entry.
    pub(super) fn read(
        &mut self,
        entry: Node<'_>,
        strings: &mut Strings,
        issues: &mut Issues,
        records: &mut FlightRecords,
    ) {
        if entry.shared_object().is_some_and(|object| !self.used.insert(object)) {
            issues.add(Issue::SharedFlightRecord);
            return;
        }
        let fields: FxHashMap<&str, Node<'_>> = entry.entries().collect();
        let get = |key: &str| fields.get(key).copied();
        let id = |key: &str| get(key)?.integer()?.id();
        let text = |key: &str| get(key).and_then(Node::text);
        let number = id("record_id").or_else(|| id("id"));
        let (Some(record_id), Some(name)) = (number.filter(|id| *id >= 0), text("profiling_name"))
        else {
            issues.add(Issue::FlightRecord);
            return;
        };
        let (library, called) = name.rsplit_once(':').unwrap_or(("", name));
        let (operation, peers) = called.split_once(' ').unwrap_or((called, ""));
        let is_message = matches!(operation, "send" | "recv");
        let is_p2p = get("is_p2p").and_then(Node::flag).unwrap_or(is_message);
        let group = get("process_group").or_else(|| get("pg_name"));
        let (group_name, group_description) = match group {
            Some(group) if group.is_list() => {
                let mut names = group.items().filter_map(Node::text);
                (names.next().map(str::to_owned), names.next().map(str::to_owned))
            }
            Some(group) => (group.text().map(str::to_owned), None),
            None => (id("pg_id").map(|id| id.to_string()), None),
        };
        let members = group_name.as_ref().and_then(|name| self.members.get(name));
        let seq = id("seq_id");
        let collective_seq = id("collective_seq_id").or(seq).filter(|_| !is_p2p);
        let p2p_seq = id("p2p_seq_id").or(seq).filter(|_| is_p2p);
        let (source_rank, target_rank) =
            match (is_message, peers.split_once("->"), peers.split_once("<-")) {
                (true, Some((source, target)), _) | (true, None, Some((target, source))) => {
                    let global = |position: &str| {
                        global_rank(position, members.map(|(_, ranks)| ranks.as_slice()))
                    };
                    (global(source), global(target))
                }
                _ => (NULL_I64, NULL_I64),
            };
        let time = |key: &str| {
            let time_ns = get(key).and_then(|node| node.integer()?.time_ns());
            time_ns.filter(|&ns| ns > 0).unwrap_or(NULL_I64)
        };
        let inputs = self.sizes(get("input_sizes"), strings, issues);
        let outputs = self.sizes(get("output_sizes"), strings, issues);
        let input_dtypes = self.names(get("input_dtypes"), strings, issues);
        let output_dtypes = self.names(get("output_dtypes"), strings, issues);
        let stack = self.stack(get("frames"), strings, issues);
        let mut intern = |text: Option<&str>| {
            text.filter(|text| !text.is_empty()).map_or(StrId::NULL, |text| strings.intern(text))
        };
        records.push(FlightRecord {
            rank: 0,
            record_id,
            group_name: intern(group_name.as_deref()),
            group_description: intern(group_description.as_deref()),
            group_ranks: intern(members.map(|(listed, _)| listed.as_str())),
            collective_seq: collective_seq.unwrap_or(NULL_I64),
            p2p_seq: p2p_seq.unwrap_or(NULL_I64),
            op_id: id("op_id").unwrap_or(NULL_I64),
            library: intern(Some(library)),
            operation: intern(Some(operation)),
            source_rank,
            target_rank,
            is_p2p,
            state: intern(text("state")),
            is_retired: get("retired").and_then(Node::flag).unwrap_or(false),
            ts_ns: time("time_created_ns"),
            started_ts_ns: time("time_discovered_started_ns"),
            completed_ts_ns: time("time_discovered_completed_ns"),
            dur_ns: milliseconds(get("duration_ms")),
            timeout_dur_ns: milliseconds(get("timeout_ms")),
            input_sizes: inputs.text,
            input_dtypes,
            input_element_count: inputs.elements,
            output_sizes: outputs.text,
            output_dtypes,
            output_element_count: outputs.elements,
            file: stack.file,
            line: stack.line,
            function: stack.function,
            stack: stack.text,
        });
    }

    /// Counts one value. Returns false if there are too many.
    fn take(&mut self, issues: &mut Issues) -> bool {
        let is_left = self.left > 0;
        if !is_left {
            issues.add(Issue::LongFlightRecord);
        }
        self.left = self.left.saturating_sub(1);
        is_left
    }

    /// `[[8, 4], [2]]`: 34 elements.
    fn sizes(
        &mut self,
        node: Option<Node<'_>>,
        strings: &mut Strings,
        issues: &mut Issues,
    ) -> Sizes {
        let unknown = Sizes { text: StrId::NULL, elements: NULL_I64 };
        let Some(node) = node.filter(|node| node.is_list()) else { return unknown };
        let mut text = "[".to_owned();
        let mut elements: i64 = 0;
        for tensor in node.items() {
            text.push_str(if text.len() > 1 { ", [" } else { "[" });
            let mut product: i64 = 1;
            for (at, size) in tensor.items().enumerate() {
                if !self.take(issues) {
                    return unknown;
                }
                let Some(size) = size.integer().and_then(RawInteger::count) else { return unknown };
                product = product.saturating_mul(size);
                let comma = if at > 0 { ", " } else { "" };
                let _ = write!(text, "{comma}{size}");
            }
            text.push(']');
            elements = elements.saturating_add(product);
            if !self.take(issues) {
                return unknown;
            }
        }
        text.push(']');
        let elements = RawInteger::new(elements).count().unwrap_or(NULL_I64);
        Sizes { text: strings.intern(&text), elements }
    }

    /// Names, each once if all are the same.
    fn names(
        &mut self,
        node: Option<Node<'_>>,
        strings: &mut Strings,
        issues: &mut Issues,
    ) -> StrId {
        let mut names: Vec<&str> = Vec::new();
        for name in node.into_iter().flat_map(Node::items).filter_map(Node::text) {
            if !self.take(issues) {
                return StrId::NULL;
            }
            names.push(name);
        }
        names.dedup();
        if names.is_empty() { StrId::NULL } else { strings.intern(&names.join(", ")) }
    }

    fn stack(
        &mut self,
        node: Option<Node<'_>>,
        strings: &mut Strings,
        issues: &mut Issues,
    ) -> Stack {
        let Some(node) = node.filter(|node| node.is_list()) else { return NO_STACK };
        let object = node.shared_object();
        if let Some(stack) = object.and_then(|object| self.stacks.get(&object)) {
            return *stack;
        }
        let mut text = String::new();
        let mut caller: Option<(&str, i64, &str, bool)> = None;
        for frame in node.items().take(MAX_FRAMES) {
            if !self.take(issues) {
                break;
            }
            let fields: FxHashMap<&str, Node<'_>> = frame.entries().take(8).collect();
            let get = |key: &str| fields.get(key).and_then(|node| node.text()).unwrap_or_default();
            let (function, file) = (get("name"), get("filename"));
            let line = fields.get("line").and_then(|node| node.integer()?.id()).unwrap_or(NULL_I64);
            if file.is_empty() {
                continue;
            }
            let _ = match line {
                NULL_I64 => writeln!(text, "{function} at {file}"),
                line => writeln!(text, "{function} at {file}:{line}"),
            };
            if caller.is_none() || (caller.is_some_and(|(.., is_users)| !is_users) && is_user(file))
            {
                caller = Some((file, line, function, is_user(file)));
            }
        }
        let stack = caller.map_or(NO_STACK, |(file, line, function, _)| Stack {
            text: strings.intern(text.trim_end()),
            file: strings.intern(file),
            line,
            function: strings.intern(function),
        });
        if let Some(object) = object {
            self.stacks.insert(object, stack);
        }
        stack
    }
}

/// The rank at a position in a group; the position itself if the members are unknown. `?` stands for any.
fn global_rank(position: &str, members: Option<&[i64]>) -> i64 {
    let Some(position) = position.trim().parse::<usize>().ok() else { return NULL_I64 };
    match members {
        Some(ranks) => ranks.get(position).copied().unwrap_or(NULL_I64),
        None => i64::try_from(position).unwrap_or(NULL_I64),
    }
}

fn milliseconds(node: Option<Node<'_>>) -> i64 {
    node.and_then(|node| node.decimal()?.dur_ms()).unwrap_or(NULL_I64)
}
