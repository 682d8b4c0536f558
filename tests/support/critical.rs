//! Numbers of the critical path that tests of several programs read.

use std::collections::BTreeMap;

use trace_advisor::Run;
use trace_advisor::arrow::array::{AsArray, RecordBatch};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};

/// Two columns: a name and a number.
fn shares(batches: &[RecordBatch]) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for batch in batches {
        let names = cast(batch.column(0), &DataType::Utf8).unwrap();
        let values = cast(batch.column(1), &DataType::Float64).unwrap();
        for row in 0..batch.num_rows() {
            let value = values.as_primitive::<Float64Type>().value(row);
            shares.insert(names.as_string::<i32>().value(row).to_owned(), value);
        }
    }
    shares
}

/// The parts of the critical path of a rank, by what bounds them.
pub(crate) fn path_shares(run: &Run, rank: i32) -> BTreeMap<String, f64> {
    let query = format!("SELECT bound_by, ratio FROM critical_path_summary WHERE rank = {rank}");
    shares(&run.sql(&query).unwrap())
}

/// The share of the window of a rank that each scenario saves.
pub(crate) fn gains(run: &Run, rank: i32) -> BTreeMap<String, f64> {
    let query = format!("SELECT scenario, gain_ratio FROM critical_what_if WHERE rank = {rank}");
    shares(&run.sql(&query).unwrap())
}

/// True if no other scenario has a larger gain, among those about a cause that can be removed: that the
/// kernels could be faster is true of every run.
pub(crate) fn leads(gains: &BTreeMap<String, f64>, scenario: &str) -> bool {
    let others = gains.iter().filter(|(name, _)| *name != "kernels_2x_faster");
    others.fold(0.0, |most: f64, (_, &gain)| most.max(gain)) <= gains[scenario]
}
