//! Metrics of Determined's profiler, in all forms in which users get them: the answers of its REST interface,
//! the requests that its collectors send, rows of its database, objects of its Python SDK. Two generations of
//! each: up to 0.29 with timings and batches, from 0.30 on means over some seconds.

mod attachment;
mod entry;
mod fields;
mod importer;
mod list;
pub(crate) mod metrics;
mod rows;
pub(crate) mod sniff;
mod time;

use self::metrics::Metrics;
use crate::error::Unreadable;
use crate::input::decompress::JsonInput;

pub(crate) use importer::Determined;
pub(crate) use sniff::{Form, unsupported_dump};

/// Reads a file. Calls `advance` with the number of bytes read since the last call.
pub(crate) fn read(
    form: Form,
    input: JsonInput,
    advance: &dyn Fn(u64),
) -> Result<Metrics, Unreadable> {
    let mut metrics = Metrics::default();
    match form {
        Form::Json => metrics.read_entries(input, advance)?,
        Form::Csv => metrics.read_csv(input, advance)?,
        Form::Dump => metrics.read_dump(input, advance)?,
    }
    metrics.drop_index();
    Ok(metrics)
}
