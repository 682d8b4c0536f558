//! Operators: by time on device and host, and what a program on the CPU does.

use trace_advisor::Error;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{Block, Pane};

/// The view of operators, in the same steps as the roofline.
const OPERATORS: &str = "op_in_steps";

const COLUMNS: &[(&str, &str)] = &[
    ("name", "Operator"),
    ("call_count", "Calls"),
    ("device_self_ns", "GPU, self"),
    ("device_total_ns", "GPU, total"),
    ("host_self_ns", "Host, self"),
    ("host_total_ns", "Host, total"),
    ("launch_count", "Launches"),
    ("source", "Line"),
];

const ROOFLINE: &[(&str, &str)] = &[
    ("name", "Operator"),
    ("shapes", "Shapes"),
    ("dtype", "Type"),
    ("call_count", "Calls"),
    ("kernel_ns", "GPU time"),
    ("loss_ns", "Above the roofline"),
    ("efficiency_ratio", "Of the roofline"),
    ("bound", "Bound by"),
    ("reason", "Note"),
];

pub(super) fn operators(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    let order = "device_self_ns DESC, host_self_ns DESC, name";
    let by_name = source.table("Operators by time", OPERATORS, COLUMNS, order)?;
    blocks.add(OPERATORS, by_name.map(Block::Table));
    if !blocks.is_empty() {
        let order = "loss_ns DESC NULLS LAST, kernel_ns DESC, name, shapes";
        let by_shape =
            source.table("By shape, against the roofline", "op_roofline", ROOFLINE, order)?;
        blocks.add("op_roofline", by_shape.map(Block::Table));
    }
    Ok(source.pane(
        "operators",
        "Operators",
        "Which operators take the time on the GPU and on the host?",
        blocks,
        OPERATORS,
    ))
}
