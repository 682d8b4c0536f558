//! Source lines: what each line of the program costs.

use trace_advisor::Error;

use super::Source;
use super::coverage::Blocks;
use crate::blocks::{Block, Pane};

const LINES: &[(&str, &str)] = &[
    ("source", "Line"),
    ("device_ns", "GPU"),
    ("operator_self_ns", "Operators on the host"),
    ("launch_count", "Launches"),
    ("communication_ns", "Communication"),
    ("data_loading_ns", "Loading"),
    ("sync_ns", "Waiting for the GPU"),
    ("optimizer_ns", "Optimizer"),
];

const IDLE: &[(&str, &str)] = &[
    ("source", "Line"),
    ("idle_ns", "GPU idle"),
    ("dataloader_ns", "Loading"),
    ("sync_ns", "Synchronization"),
    ("dispatch_ns", "Launching"),
    ("python_ns", "Python"),
    ("cpu_compute_ns", "CPU operators"),
];

pub(super) fn source_lines(source: &Source<'_>) -> Result<Pane, Error> {
    let mut blocks = Blocks::default();
    let order = "device_ns DESC, operator_self_ns DESC, source";
    let lines = source.table("Lines by cost", "source_lines", LINES, order)?;
    if let Some(table) = lines {
        let idle = source.table(
            "Lines that leave the GPU idle",
            "idle_source_lines",
            IDLE,
            "idle_ns DESC, source",
        )?;
        blocks.add("source_lines", [Block::Table(table)]);
        blocks.add("idle_source_lines", idle.map(Block::Table));
    }
    Ok(source.pane(
        "source",
        "Source lines",
        "Which lines of the program cost the most?",
        blocks,
        "source_lines",
    ))
}
