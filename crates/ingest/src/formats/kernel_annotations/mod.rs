//! Annotations of graph nodes (`torch.cuda.graph_annotations`). Programs write them beside the traces of their replays, as JSON or
//! as a pickle: the profiler's id of each node, with the marks of the program.

mod attachment;
mod importer;

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::Value;

use crate::formats::pickle::{self, Graph, Kind, ObjectId, Value as Pickled};
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::input::text_reader::TextReader;
use crate::timeline::graph_marks::{MODULE, module_of};

pub(crate) use importer::KernelAnnotations;

/// Maximum bytes of a file. The annotations of a graph of ten thousand nodes take one to two MB.
const MAX_JSON: u64 = 64 << 20;

/// Maximum number of marks of a node that are read. Each scope around the node adds one mark.
const MAX_MARKS: usize = 64;

/// The serialization format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Pickle,
}

/// The content of one file.
#[derive(Debug)]
pub(crate) struct MarkedNodes {
    /// Module names by node id.
    modules: BTreeMap<i64, String>,
    node_count: u64,
    bytes: u64,
}

/// Returns whether a number is a node id. Its upper 32 bits are the id of the graph, which is never 0.
fn is_node(id: i64) -> bool {
    id > i64::from(u32::MAX)
}

/// Parses a node id that is a JSON key.
fn node_id(text: &str) -> Option<i64> {
    text.parse().ok().filter(|id| is_node(*id))
}

/// Reads a file; the error describes the problem.
pub(crate) fn read(
    encoding: Encoding,
    input: JsonInput,
    advance: &dyn Fn(u64),
) -> Result<MarkedNodes, String> {
    match encoding {
        Encoding::Json => read_json(input, advance),
        Encoding::Pickle => {
            let (graph, bytes) =
                pickle::read(input, advance).map_err(|problem| problem.to_string())?;
            Ok(of_pickle(&graph, bytes))
        }
    }
}

fn of_pickle(graph: &Graph, bytes: u64) -> MarkedNodes {
    let mut nodes = MarkedNodes { modules: BTreeMap::new(), node_count: 0, bytes };
    let Some(root) = object(graph, graph.root(), Kind::Dict) else { return nodes };
    let mut items = graph.items(root);
    while let (Some(key), Some(marks)) = (items.next(), items.next()) {
        let Pickled::Int(id) = key else { continue };
        if is_node(id) {
            nodes.node_count += 1;
            nodes.modules.extend(pickled_module(graph, marks).map(|module| (id, module)));
        }
    }
    nodes
}

/// Returns the module that the marks of a node name, see [`module_of`].
fn pickled_module(graph: &Graph, marks: Pickled) -> Option<String> {
    let list = object(graph, marks, Kind::List);
    let marks: Vec<Pickled> = match list {
        Some(list) => graph.items(list).take(MAX_MARKS).collect(),
        None => vec![marks],
    };
    let dicts = marks.into_iter().rev().filter_map(|mark| object(graph, mark, Kind::Dict));
    let mut modules = dicts.filter_map(|dict| {
        let is_module = |&(key, _): &(_, _)| graph.strings.get(key) == MODULE;
        match graph.entries(dict).take(MAX_MARKS).find(is_module) {
            Some((_, Pickled::Str(module))) => Some(graph.strings.get(module)),
            _ => None,
        }
    });
    modules.find(|module| !module.is_empty()).map(str::to_owned)
}

/// Returns the container that a value refers to, if it is of this kind.
fn object(graph: &Graph, value: Pickled, kind: Kind) -> Option<ObjectId> {
    match value {
        Pickled::Object(object) if graph.kind(object) == kind => Some(object),
        _ => None,
    }
}

fn read_json(input: JsonInput, advance: &dyn Fn(u64)) -> Result<MarkedNodes, String> {
    let mut reader = TextReader::new(input, advance);
    let mut text = Vec::new();
    let length = (&mut reader).take(MAX_JSON + 1).read_to_end(&mut text);
    length.map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > MAX_JSON {
        return Err("far longer than annotations of graphs are: refused".to_owned());
    }
    if reader.end() == StreamEnd::Damaged {
        return Err("the compressed data ends early or is damaged: copy it again".to_owned());
    }
    let entries: BTreeMap<String, Value> =
        serde_json::from_slice(&text).map_err(|error| format!("not valid JSON: {error}"))?;
    let nodes = entries.iter().filter_map(|(id, marks)| Some((node_id(id)?, marks)));
    let modules: BTreeMap<i64, String> =
        nodes.clone().filter_map(|(id, marks)| Some((id, module_of(marks)?.to_owned()))).collect();
    let node_count = nodes.count() as u64;
    Ok(MarkedNodes { modules, node_count, bytes: text.len() as u64 })
}
