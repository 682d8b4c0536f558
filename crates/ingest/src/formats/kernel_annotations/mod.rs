//! Annotations of the nodes of graphs, which programs write beside the traces of their replays: an object of the number of each
//! node, as the profiler numbers it, and what the program marked it with (`torch.cuda.graph_annotations`).

mod attachment;
mod importer;

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::Value;

use crate::input::decompress::{JsonInput, StreamEnd};
use crate::input::text_reader::TextReader;
use crate::timeline::graph_marks::module_of;

pub(crate) use importer::KernelAnnotations;

/// Longest file that is read. A graph of ten thousand nodes has one to two MB.
const MAX_JSON: u64 = 64 << 20;

/// One file, read.
#[derive(Debug)]
pub(crate) struct MarkedNodes {
    /// Nodes with a module.
    modules: BTreeMap<i64, String>,
    node_count: u64,
    json_bytes: u64,
}

/// The number of a node: that of its graph in the upper 32 bits, which is never 0.
fn node_id(text: &str) -> Option<i64> {
    text.parse().ok().filter(|id| *id > i64::from(u32::MAX))
}

/// Reads a file; the error describes the problem.
pub(crate) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<MarkedNodes, String> {
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
    Ok(MarkedNodes { modules, node_count, json_bytes: text.len() as u64 })
}
