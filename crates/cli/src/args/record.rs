//! `advisor record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use serde::Serialize;
use trace_advisor::query::Range;

use super::headings::OUTPUT;

/// `advisor record`.
#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(crate) struct RecordArgs {
    /// Program to run, with its arguments; its PyTorch must be 2.3 or later
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Steps to record, from the first to the last; the first step of the program is 0
    ///
    /// The profiler runs without keeping events for two steps before the first. A program that ends earlier leaves what was
    /// recorded until then.
    #[arg(long, value_name = "RANGE", value_parser = recorded_steps, default_value = "10-16")]
    pub(crate) steps: Range,
    /// Record Python stacks, too: findings name source lines, but the host takes longer
    #[arg(long)]
    pub(crate) stacks: bool,
    /// PyTorch trace writer that records the GPU; the note at the end names the writer that recorded
    #[arg(long, value_enum, default_value_t = TraceWriter::Auto)]
    pub(crate) writer: TraceWriter,
    /// Keep no history of GPU memory for a snapshot when the program runs out of it
    #[arg(long)]
    pub(crate) no_memory_snapshot: bool,
    /// Directory to write traces to; created if it does not exist. If it is not empty, DIR-2, DIR-3, ... is taken
    #[arg(id = "output", long = "output", short = 'o', value_name = "DIR", default_value = "run", help_heading = OUTPUT)]
    pub(crate) directory: PathBuf,
    /// Write into DIR even if it is not empty; existing files are kept
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) force: bool,
    /// Write the traces without checking them
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_check: bool,
}

/// The choice of PyTorch's trace writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TraceWriter {
    /// Cuspy if it can record, otherwise Kineto
    Auto,
    /// The writer of every PyTorch version
    Kineto,
    /// The writer of PyTorch 2.15 and later for NVIDIA GPUs, with cupti-python; if it cannot record, Kineto does, with a warning
    Cuspy,
}

/// Parses steps to record: a range with both ends.
fn recorded_steps(text: &str) -> Result<Range, String> {
    let range: Range = text.parse().map_err(|error| format!("{error}"))?;
    if range.first < 0 || range.last == i64::MAX {
        return Err("the recording needs a first and a last step: write 10-16".to_owned());
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::recorded_steps;

    #[test]
    fn recorded_steps_have_two_ends() {
        for text in ["10-16", "10..16"] {
            let range = recorded_steps(text).unwrap();
            assert_eq!((range.first, range.last), (10, 16), "{text}");
        }
        for text in ["10..", "16-10", "-1", "x"] {
            assert!(recorded_steps(text).is_err(), "{text}");
        }
    }
}
